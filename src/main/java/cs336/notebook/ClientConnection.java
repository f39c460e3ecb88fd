package cs336.notebook;

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
import io.github.spencerpark.jupyter.messages.reply.ErrorReply;
import io.github.spencerpark.jupyter.messages.request.ExecuteRequest;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;

/**
 * A connection that adds two rules of Jupyter's protocol to the base kernel: errors keep their names, and cells that
 * were queued when a cell failed do not run.
 */
final class ClientConnection extends JupyterConnection {
    private CellException failure;
    private int failedCell;
    private Instant queuedUntil = Instant.MIN;

    ClientConnection(KernelConnectionProperties properties) throws GeneralSecurityException {
        super(properties);
    }

    /** Lets {@code kernel} handle the requests of this connection. */
    void serve(JavaKernel kernel) {
        kernel.becomeHandlerForConnection(this);
        ShellHandler<ExecuteRequest> run = getHandler(MessageType.EXECUTE_REQUEST);
        setHandler(MessageType.EXECUTE_REQUEST, (environment, request) -> {
            // Only times of the client are compared, because its clock may differ from ours.
            Instant sent = sent(request);
            if (request.getContent().shouldStopOnError() && !sent.isAfter(queuedUntil)) {
                environment.setBusyDeferIdle();
                environment.defer().reply(new Aborted());
                return;
            }
            long start = System.nanoTime();
            failure = null;
            run.handle(environment, request);
            if (failure != null) {
                queuedUntil = sent.plus(Duration.ofNanos(System.nanoTime() - start));
            }
        });
    }

    private static Instant sent(Message<?> message) {
        return OffsetDateTime.parse(message.getHeader().getTimestamp().getDateString())
                .toInstant();
    }

    /** Records the error of the running cell. */
    void failed(CellException failure, int executionCount) {
        this.failure = failure;
        failedCell = executionCount;
    }

    @Override
    public ShellReplyEnvironment prepareReplyEnv(ShellChannel shell, MessageContext context) {
        return new ShellReplyEnvironment(shell, stdin, iopub, context) {
            @Override
            public <T extends ContentType<T>> void publish(T content) {
                if (content instanceof PublishError error && failure != null) {
                    super.publish(new PublishError(failure.name(), failure.getMessage(), error.getStacktrace()));
                } else {
                    super.publish(content);
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
        };
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
