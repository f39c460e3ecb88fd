package cs336.notebook.widgets;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.channels.ReplyEnvironment;
import io.github.spencerpark.jupyter.kernel.comm.Comm;
import io.github.spencerpark.jupyter.kernel.comm.CommManager;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.messages.Message;
import io.github.spencerpark.jupyter.messages.MessageType;
import io.github.spencerpark.jupyter.messages.comm.CommCloseCommand;
import io.github.spencerpark.jupyter.messages.comm.CommMsgCommand;
import io.github.spencerpark.jupyter.messages.comm.CommOpenCommand;
import io.github.spencerpark.jupyter.messages.publish.PublishError;
import io.github.spencerpark.jupyter.messages.reply.CommInfoReply;
import io.github.spencerpark.jupyter.messages.request.CommInfoRequest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The comms of a kernel: the messages between each widget and its copy in the browser, in version 2.1.0 of ipywidgets'
 * protocol.
 *
 * <p>Messages are handled one at a time on the thread that runs cells. One that is malformed is answered by an error
 * and has no other effect.
 */
public final class WidgetComms extends CommManager {
    private static final String TARGET = "jupyter.widget";

    /** The target on which a reloaded page asks for the state of all widgets. */
    private static final String CONTROL_TARGET = "jupyter.widget.control";

    private static final String PROTOCOL = "2.1.0";

    private final Renderer renderer;
    private final WidgetHost host;
    private final Map<String, List<Interaction>> shownByCell = new HashMap<>();
    private String cell = "";
    private boolean interactive;

    /**
     * Creates the comms of a kernel.
     *
     * @param renderer renders the values that widgets show
     */
    public WidgetComms(Renderer renderer, WidgetHost host) {
        this.renderer = renderer;
        this.host = host;
        comms = new ConcurrentHashMap<>();
    }

    /**
     * Begins a cell. Closes the widgets that {@link Interaction}s showed in the previous run of this cell.
     *
     * @param cellId the id of the cell; null if the client does not send it
     * @param attended whether a user sees widgets and answers input requests; false for runners such as nbconvert
     */
    public void beginCell(String cellId, boolean attended) {
        cell = cellId == null ? "" : cellId;
        interactive = attended;
        forget(cell);
    }

    /** Closes the widgets that {@link Interaction}s showed in a cell. */
    public void forget(String cellId) {
        List<Interaction> shown = shownByCell.remove(cellId);
        if (shown != null) {
            shown.forEach(Interaction::close);
        }
    }

    /** Returns whether widgets can be shown: a client is connected, and a user is there. */
    boolean areLive() {
        return iopub != null && interactive;
    }

    Renderer renderer() {
        return renderer;
    }

    WidgetHost host() {
        return host;
    }

    /** Remembers an interaction until its cell runs again. A cell without an id is never forgotten. */
    void remember(Interaction interaction) {
        if (!cell.isEmpty()) {
            shownByCell.computeIfAbsent(cell, id -> new ArrayList<>()).add(interaction);
        }
    }

    boolean isOpen(Widget widget) {
        return comms.containsKey(widget.id());
    }

    /** Opens a widget after those that it refers to, unless it is open. */
    void open(Widget widget) {
        if (isOpen(widget)) {
            return;
        }
        widget.parts().forEach(this::open);
        widget.attach(this);
        registerComm(new WidgetComm(widget));
        var data = new JsonObject();
        data.add("state", widget.state());
        data.add("buffer_paths", new JsonArray());
        publish(
                CommOpenCommand.MESSAGE_TYPE,
                new CommOpenCommand(widget.id(), TARGET, data),
                Map.of("version", PROTOCOL));
    }

    /** Closes a widget in the browser and forgets it. */
    void close(Widget widget) {
        if (unregisterComm(widget.id()) != null) {
            publish(CommCloseCommand.MESSAGE_TYPE, new CommCloseCommand(widget.id(), new JsonObject()), null);
        }
    }

    /** Sends some of a widget's state to the browser; {@code method} is {@code update} or {@code echo_update}. */
    void update(Widget widget, String method, JsonObject state) {
        var data = new JsonObject();
        data.addProperty("method", method);
        data.add("state", state);
        data.add("buffer_paths", new JsonArray());
        message(widget.id(), data);
    }

    private void message(String id, JsonObject data) {
        publish(CommMsgCommand.MESSAGE_TYPE, new CommMsgCommand(id, data), null);
    }

    private <T> void publish(MessageType<T> type, T content, Map<String, Object> metadata) {
        Message<T> message = new Message<>(context, type, content, null, metadata);
        host.deliver(() -> iopub.sendMessage(message));
    }

    @Override
    public void handleCommOpenCommand(ReplyEnvironment environment, Message<CommOpenCommand> message) {
        handle(environment, message, () -> {
            CommOpenCommand content = message.getContent();
            String id = required(content.getCommID());
            if (getCommByID(id) != null) {
                throw new IllegalArgumentException("comm_open: the comm " + id + " is open already");
            }
            if (CONTROL_TARGET.equals(content.getTargetName())) {
                registerComm(new ControlComm(id));
            } else {
                publish(CommCloseCommand.MESSAGE_TYPE, new CommCloseCommand(id, new JsonObject()), null);
            }
        });
    }

    @Override
    public void handleCommMsgCommand(ReplyEnvironment environment, Message<CommMsgCommand> message) {
        handle(environment, message, () -> {
            String id = required(message.getContent().getCommID());
            JsonObject data = message.getContent().getData();
            if (data == null) {
                throw new IllegalArgumentException("comm_msg: data is missing");
            }
            if (!(getCommByID(id) instanceof ReceivingComm comm)) {
                throw new IllegalArgumentException("comm_msg: no widget has the comm " + id);
            }
            comm.receive(data);
        });
    }

    @Override
    public void handleCommCloseCommand(ReplyEnvironment environment, Message<CommCloseCommand> message) {
        // A client may close a comm that it has not opened, such as one that the kernel has just closed.
        handle(
                environment,
                message,
                () -> unregisterComm(required(message.getContent().getCommID())));
    }

    @Override
    public void handleCommInfoRequest(ReplyEnvironment environment, Message<CommInfoRequest> message) {
        environment.setBusyDeferIdle();
        String target = message.getContent().getTargetName();
        Map<String, CommInfoReply.CommInfo> open = new HashMap<>();
        for (Comm comm : this) {
            if (target == null || target.equals(comm.getTargetName())) {
                open.put(comm.getID(), new CommInfoReply.CommInfo(comm.getTargetName()));
            }
        }
        environment.reply(new OpenComms(open));
    }

    /** A reply with a status, without which JupyterLab ignores it. */
    private static final class OpenComms extends CommInfoReply {
        @SuppressWarnings("unused") // serialized into the message
        private final String status = "ok";

        private OpenComms(Map<String, CommInfo> open) {
            super(open);
        }
    }

    private static String required(String id) {
        if (id == null) {
            throw new IllegalArgumentException("comm_id is missing");
        }
        return id;
    }

    private void handle(ReplyEnvironment environment, Message<?> message, Runnable handler) {
        environment.setBusyDeferIdle();
        setMessageContext(message);
        try {
            handler.run();
        } catch (RuntimeException | StackOverflowError e) {
            String name = e.getClass().getName();
            var error = new PublishError(name, String.valueOf(e.getMessage()), List.of(e.toString()));
            environment.publish(new Message<>(message, PublishError.MESSAGE_TYPE, error));
        } finally {
            host.flush();
        }
    }

    /** A comm that handles messages of the browser. */
    private abstract class ReceivingComm extends Comm {
        private ReceivingComm(String id, String target) {
            super(WidgetComms.this, id, target);
        }

        /** @throws IllegalArgumentException if the message is malformed */
        abstract void receive(JsonObject data);

        @Override
        protected void onMessage(Message<CommMsgCommand> message) {
            receive(message.getContent().getData());
        }

        @Override
        protected void onClose(Message<CommCloseCommand> message, boolean byKernel) {
            // An unregistered comm receives nothing.
        }
    }

    private final class WidgetComm extends ReceivingComm {
        private final Widget widget;

        private WidgetComm(Widget widget) {
            super(widget.id(), TARGET);
            this.widget = widget;
        }

        @Override
        void receive(JsonObject data) {
            widget.receive(data);
        }
    }

    private final class ControlComm extends ReceivingComm {
        private ControlComm(String id) {
            super(id, CONTROL_TARGET);
        }

        @Override
        void receive(JsonObject data) {
            JsonElement method = data.get("method");
            if (method == null
                    || !method.isJsonPrimitive()
                    || !method.getAsString().equals("request_states")) {
                throw new IllegalArgumentException("comm_msg: method must be request_states, not " + method);
            }
            var states = new JsonObject();
            for (Comm comm : WidgetComms.this) {
                if (comm instanceof WidgetComm shown) {
                    states.add(comm.getID(), model(shown.widget.state()));
                }
            }
            var reply = new JsonObject();
            reply.addProperty("method", "update_states");
            reply.add("states", states);
            reply.add("buffer_paths", new JsonArray());
            message(getID(), reply);
        }

        private static JsonObject model(JsonObject state) {
            var model = new JsonObject();
            for (String key : List.of("model_name", "model_module", "model_module_version")) {
                model.add(key, state.get("_" + key));
            }
            model.add("state", state);
            return model;
        }
    }
}
