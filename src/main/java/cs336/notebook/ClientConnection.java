package cs336.notebook;

import cs336.notebook.widgets.WidgetComms;
import cs336.units.Progress;
import io.github.spencerpark.jupyter.channels.JupyterConnection;
import io.github.spencerpark.jupyter.channels.ShellChannel;
import io.github.spencerpark.jupyter.channels.ShellHandler;
import io.github.spencerpark.jupyter.channels.ShellReplyEnvironment;
import io.github.spencerpark.jupyter.kernel.KernelConnectionProperties;
import io.github.spencerpark.jupyter.messages.ContentType;
import io.github.spencerpark.jupyter.messages.Message;
import io.github.spencerpark.jupyter.messages.MessageContext;
import io.github.spencerpark.jupyter.messages.MessageType;
import io.github.spencerpark.jupyter.messages.publish.PublishError;
import io.github.spencerpark.jupyter.messages.publish.PublishExecuteInput;
import io.github.spencerpark.jupyter.messages.publish.PublishExecuteResult;
import io.github.spencerpark.jupyter.messages.publish.PublishStatus;
import io.github.spencerpark.jupyter.messages.reply.CompleteReply;
import io.github.spencerpark.jupyter.messages.reply.ErrorReply;
import io.github.spencerpark.jupyter.messages.reply.InputReply;
import io.github.spencerpark.jupyter.messages.request.ExecuteRequest;
import io.github.spencerpark.jupyter.messages.request.InputRequest;
import java.security.GeneralSecurityException;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.logging.Logger;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;
import zmq.Msg;

/**
 * A connection to Jupyter clients that handles any bytes on any port: a message that is malformed, not signed or
 * replayed is logged and ignored.
 *
 * <p>It adds two rules of Jupyter's protocol to the base kernel: errors keep their names, and cells that were queued
 * when a cell failed do not run.
 */
final class ClientConnection extends JupyterConnection {
    /** The size above which a frame is not received, so that its declared length cannot fill the memory. */
    private static final long MOST_FRAME_BYTES = 16 << 20;

    private static final Set<MessageType<?>> COMMS =
            Set.of(MessageType.COMM_OPEN_COMMAND, MessageType.COMM_MSG_COMMAND, MessageType.COMM_CLOSE_COMMAND);

    private static final int LINGER_MS = 1000;
    private static final int INPUT_POLL_MS = 20;

    private final KernelConnectionProperties properties;
    private final SignedMessages messages;
    private final ZMQ.Context context = ZMQ.context(1);

    /** Echoes any frames, unlike the base class's REP socket, which stops after a message that is not a request. */
    private final ZMQ.Socket heart = context.socket(SocketType.ROUTER);

    private final CompletableFuture<Integer> exitCode = new CompletableFuture<>();
    private final List<ServingLoop> loops;
    private volatile ShellReplyEnvironment lastCell;
    private CellException failure;
    private int failedCell;
    private Instant queuedUntil = Instant.MIN;

    ClientConnection(KernelConnectionProperties properties) throws GeneralSecurityException {
        super(properties);
        this.properties = properties;
        messages = new SignedMessages(properties);
        loops = List.of(
                new ServingLoop("heartbeat", ServingLoop.of(heart), this::echo, this::failed),
                new ServingLoop("shell", ServingLoop.of(shell), frames -> handle(shell, frames), this::failed),
                new ServingLoop("control", ServingLoop.of(control), frames -> handle(control, frames), this::failed));
    }

    /** Lets {@code kernel} handle the requests of this connection. */
    void serve(JavaKernel kernel) {
        kernel.becomeHandlerForConnection(this);
        kernel.connectedTo(this);
        ShellHandler<ExecuteRequest> run = getHandler(MessageType.EXECUTE_REQUEST);
        setHandler(MessageType.EXECUTE_REQUEST, (environment, request) -> {
            // Only times of the client are compared, because its clock may differ from the kernel's.
            Instant sent = sent(request);
            if (!sent.isAfter(queuedUntil)) {
                environment.setBusyDeferIdle();
                environment.defer().reply(new Aborted());
                return;
            }
            long start = System.nanoTime();
            failure = null;
            beginCell(kernel, request);
            lastCell = environment;
            run.handle(environment, request);
            if (isSilent(request) || !request.getContent().shouldStoreHistory()) {
                kernel.uncount();
            }
            if (failure != null && request.getContent().shouldStopOnError() && sent.isBefore(Instant.MAX)) {
                queuedUntil = sent.plus(Duration.ofNanos(System.nanoTime() - start));
            }
        });
    }

    /**
     * Begins a cell. JupyterLab sends the id of the cell, and the ids of the cells that were deleted since the last
     * request.
     */
    private static void beginCell(JavaKernel kernel, Message<ExecuteRequest> request) {
        WidgetComms widgets = kernel.widgets();
        widgets.setMessageContext(request);
        Map<String, Object> metadata = request.getNonNullMetadata();
        if (metadata.get("deletedCells") instanceof List<?> deleted) {
            deleted.forEach(cell -> widgets.forget(String.valueOf(cell)));
        }
        // Runners such as nbconvert cannot answer the questions of a cell.
        boolean attended = request.getContent().isStdinEnabled();
        kernel.beginCell(metadata.get("cellId") instanceof String cell ? cell : null, attended);
        Progress.inNotebook(attended);
    }

    /** Returns whether a request must show neither its code nor its value, and must not be counted. */
    private static boolean isSilent(MessageContext request) {
        return request instanceof Message<?> message
                && message.getContent() instanceof ExecuteRequest execute
                && execute.isSilent();
    }

    /** Returns the time at which the client sent a message; {@link Instant#MAX} if the message does not contain it. */
    private static Instant sent(Message<?> message) {
        try {
            return OffsetDateTime.parse(message.getHeader().getTimestamp().getDateString())
                    .toInstant();
        } catch (DateTimeException | NullPointerException e) {
            return Instant.MAX;
        }
    }

    /** Records the error of the running cell. */
    void failed(CellException failure, int executionCount) {
        this.failure = failure;
        failedCell = executionCount;
    }

    /**
     * Shows output below the last cell, which has ended: that of a thread that a cell started, or of a widget's
     * listener.
     */
    <T extends ContentType<T>> void publishAfterCell(T output) {
        ShellReplyEnvironment cell = lastCell;
        if (cell != null) {
            cell.publish(output);
        }
    }

    /** Binds the ports and starts to handle requests. */
    @Override
    public void connect() {
        bind(heart, properties.getHbPort());
        bind(shell, properties.getShellPort());
        bind(control, properties.getControlPort());
        bind(stdin, properties.getStdinPort());
        bind(iopub, properties.getIopubPort());
        iopub.sendMessage(new Message<>(null, PublishStatus.MESSAGE_TYPE, PublishStatus.STARTING));
        loops.forEach(Thread::start);
    }

    private void bind(ZMQ.Socket socket, int port) {
        socket.setMaxMsgSize(MOST_FRAME_BYTES);
        // JeroMQ takes a length of 2^63 bytes or more for a negative number, which is below the limit. Its I/O thread
        // then allocates the lower 32 bits as the length, and fails or spins forever if it cannot.
        socket.setMsgAllocator(size -> new Msg(size < 0 || size > MOST_FRAME_BYTES ? 0 : size));
        socket.setLinger(LINGER_MS);
        socket.bind(properties.getTransport() + "://" + properties.getIp() + ":" + port);
    }

    /** Blocks until a client requests a shutdown or a channel fails, and returns the exit code of the process. */
    int awaitEnd() {
        return exitCode.join();
    }

    /** Ends the connection with exit code 1, after a channel has failed. */
    void failed() {
        exitCode.complete(1);
    }

    /** Delivers the last replies. Sockets of a loop that is still running a cell stay open. */
    @Override
    public void close() {
        loops.forEach(ServingLoop::finish);
        boolean ended = true;
        try {
            for (ServingLoop loop : loops) {
                loop.join(LINGER_MS);
                ended &= !loop.isAlive();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            ended = false;
        }
        if (ended) {
            heart.close();
            context.close();
            super.close();
        }
    }

    private void echo(List<byte[]> frames) {
        for (int i = 0; i < frames.size() - 1; i++) {
            heart.sendMore(frames.get(i));
        }
        heart.send(frames.get(frames.size() - 1));
    }

    private void handle(ShellChannel channel, List<byte[]> frames) {
        try {
            handle(channel, messages.decode(frames));
        } catch (SignedMessages.RefusedMessage e) {
            ((ServingLoop) Thread.currentThread()).log(e.getMessage());
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private <T> void handle(ShellChannel channel, Message<T> message) throws Exception {
        MessageType<T> type = message.getHeader().getType();
        if (channel == control && COMMS.contains(type)) {
            // Listeners run on the thread that runs cells.
            throw new SignedMessages.RefusedMessage("comm messages belong on the shell channel");
        }
        ShellHandler<T> handler = getHandler(type);
        if (handler == null) {
            throw new SignedMessages.RefusedMessage("no request has the type " + type);
        }
        ShellReplyEnvironment environment = prepareReplyEnv(channel, message);
        try {
            handler.handle(environment, message);
        } finally {
            environment.resolveDeferrals();
            if (environment.isMarkedForShutdown()) {
                exitCode.complete(0);
            }
        }
    }

    @Override
    public ShellReplyEnvironment prepareReplyEnv(ShellChannel shell, MessageContext context) {
        return new ShellReplyEnvironment(shell, stdin, iopub, context) {
            @Override
            public <T extends ContentType<T>> void publish(T content) {
                boolean isHidden = content instanceof PublishExecuteInput || content instanceof PublishExecuteResult;
                if (isHidden && isSilent(context)) {
                    return;
                }
                if (content instanceof PublishError error && failure != null) {
                    super.publish(new PublishError(failure.name(), failure.getMessage(), error.getStacktrace()));
                } else {
                    super.publish(content);
                }
            }

            @Override
            public <T extends ContentType<T>> void reply(T content) {
                if (content instanceof CompleteReply options) {
                    int start = options.getCursorStart();
                    int end = options.getCursorEnd();
                    List<String> matches = options.getMatches();
                    super.reply(new CompleteReply(matches, start, end, CodeInsight.kinds(matches, start, end)));
                } else {
                    super.reply(content);
                }
            }

            @Override
            public void replyError(MessageType<?> type, ErrorReply error) {
                if (failure == null) {
                    super.replyError(type, error);
                    return;
                }
                var named = new ErrorReply(failure.name(), failure.getMessage(), failure.report());
                named.setExecutionCount(failedCell);
                super.replyError(type, named);
            }

            @Override
            public String readFromStdIn(String prompt, boolean isPassword) {
                // A late reply to a cell that was interrupted must not answer this question.
                for (byte[] old = stdin.recv(ZMQ.DONTWAIT); old != null; old = stdin.recv(ZMQ.DONTWAIT)) {
                    ServingLoop.withRest(stdin, old);
                }
                stdin.sendMessage(
                        new Message<>(context, InputRequest.MESSAGE_TYPE, new InputRequest(prompt, isPassword)));
                return input() + System.lineSeparator();
            }
        };
    }

    /** Waits for the user's input. Other messages on the port are ignored; an interrupt of the cell ends the wait. */
    private String input() {
        while (true) {
            byte[] first = stdin.recv(ZMQ.DONTWAIT);
            try {
                if (first == null) {
                    Thread.sleep(INPUT_POLL_MS);
                } else if (messages.decode(ServingLoop.withRest(stdin, first)).getContent() instanceof InputReply reply
                        && reply.getValue() != null) {
                    return reply.getValue();
                }
            } catch (SignedMessages.RefusedMessage e) {
                Logger.getLogger(ClientConnection.class.getName())
                        .warning("a message on the stdin channel was not handled: " + e.getMessage());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while waiting for input", e);
            }
        }
    }

    /** The reply to a request that was not executed. */
    private static final class Aborted implements ContentType<Aborted> {
        @SuppressWarnings("unused") // serialized into the message
        private final String status = "aborted";

        @Override
        @SuppressWarnings("unchecked")
        public MessageType<Aborted> getType() {
            return (MessageType<Aborted>) (MessageType<?>) MessageType.EXECUTE_REPLY;
        }
    }
}
