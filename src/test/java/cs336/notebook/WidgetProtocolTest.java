package cs336.notebook;

import static cs336.notebook.KernelClient.header;
import static cs336.notebook.KernelClient.json;
import static cs336.notebook.KernelClient.receive;
import static cs336.notebook.KernelClient.send;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/** A kernel whose widgets a client of this test shows, as JupyterLab with a widget manager does. */
public class WidgetProtocolTest {
    private static final String VIEW = "application/vnd.jupyter.widget-view+json";
    private static final Pattern REFERENCE = Pattern.compile("IPY_MODEL_(\\w+)");

    /** A listener counts it down. */
    public static volatile CountDownLatch started;

    private static KernelClient client;
    private static ClientConnection connection;
    private static JavaKernel kernel;
    private ZMQ.Socket shell;
    private ZMQ.Socket published;

    /** The state of each open widget as the client received it. */
    private final Map<String, JsonObject> states = new LinkedHashMap<>();

    @BeforeAll
    static void connect() throws Exception {
        client = new KernelClient();
        connection = new ClientConnection(client.properties());
        kernel = new JavaKernel(Imports.PORTABLE, null);
        connection.serve(kernel);
        connection.connect();
    }

    @AfterAll
    static void close() {
        client.close();
        connection.close();
        kernel.close();
    }

    @BeforeEach
    void open() {
        shell = client.socket(SocketType.DEALER, KernelClient.Port.SHELL);
        published = client.socket(SocketType.SUB, KernelClient.Port.IOPUB);
        published.subscribe(new byte[0]);
        // Messages before the subscription are lost.
        published.setReceiveTimeOut(100);
        String id = null;
        while (receive(published) == null) {
            id = UUID.randomUUID().toString();
            send(shell, client.signed(header(id, "kernel_info_request"), "{}", "{}", "{}"));
        }
        published.setReceiveTimeOut(KernelClient.REPLY_MS);
        awaitIdle(id);
    }

    @AfterEach
    void closeSockets() {
        shell.close();
        published.close();
    }

    /** A published message. */
    private record Published(String type, JsonObject metadata, JsonObject content) {
        JsonObject data() {
            return content.getAsJsonObject("data");
        }
    }

    /** Returns what was published for a request, up to the status {@code idle}. */
    private List<Published> awaitIdle(String id) {
        List<Published> messages = new ArrayList<>();
        while (true) {
            List<String> parts = receive(published);
            assertFalse(parts == null, "nothing is published for " + id + " after " + messages);
            JsonObject parent = json(parts.get(2));
            if (!parent.has("msg_id") || !parent.get("msg_id").getAsString().equals(id)) {
                continue;
            }
            var message = new Published(
                    json(parts.get(1)).get("msg_type").getAsString(), json(parts.get(3)), json(parts.get(4)));
            follow(message);
            if (message.type.equals("status")) {
                if (message.content.get("execution_state").getAsString().equals("idle")) {
                    return messages;
                }
            } else {
                messages.add(message);
            }
        }
    }

    /** Updates the states as a widget manager does. */
    private void follow(Published message) {
        String id =
                message.content.has("comm_id") ? message.content.get("comm_id").getAsString() : "";
        switch (message.type) {
            case "comm_open" -> {
                assertEquals("2.1.0", message.metadata.get("version").getAsString());
                assertEquals(
                        "jupyter.widget", message.content.get("target_name").getAsString());
                JsonObject state = message.data().getAsJsonObject("state");
                for (String reference : references(state)) {
                    assertTrue(states.containsKey(reference), "opened before " + reference + ": " + state);
                }
                states.put(id, state);
            }
            case "comm_msg" -> {
                if (states.containsKey(id)) {
                    message.data()
                            .getAsJsonObject("state")
                            .entrySet()
                            .forEach(entry -> states.get(id).add(entry.getKey(), entry.getValue()));
                }
            }
            case "comm_close" -> states.remove(id);
            default -> {
                // Not a message of a widget.
            }
        }
    }

    private static List<String> references(JsonObject state) {
        List<String> references = new ArrayList<>();
        Matcher matcher = REFERENCE.matcher(state.toString());
        while (matcher.find()) {
            references.add(matcher.group(1));
        }
        return references;
    }

    private List<Published> request(String type, String metadata, JsonObject content) {
        String id = UUID.randomUUID().toString();
        send(shell, client.signed(header(id, type), "{}", metadata, content.toString()));
        return awaitIdle(id);
    }

    private List<Published> run(String cellId, boolean attended, String code) {
        var content = new JsonObject();
        content.addProperty("code", code);
        content.addProperty("allow_stdin", attended);
        content.addProperty("stop_on_error", true);
        List<Published> all = request("execute_request", "{\"cellId\": \"" + cellId + "\"}", content);
        all.removeIf(message -> message.type.equals("execute_input"));
        all.forEach(message -> assertNotEquals("error", message.type, message.toString()));
        return all;
    }

    private List<Published> run(String code) {
        return run(UUID.randomUUID().toString(), true, "import static cs336.notebook.widgets.Widgets.*;\n" + code);
    }

    private List<Published> comm(String type, String id, JsonElement data) {
        var content = new JsonObject();
        content.addProperty("comm_id", id);
        content.add("data", data);
        return request(type, "{}", content);
    }

    private List<Published> update(String id, String key, JsonElement value) {
        var state = new JsonObject();
        state.add(key, value);
        return comm("comm_msg", id, message("update", "state", state));
    }

    private static JsonObject message(String method, String key, JsonObject value) {
        var data = new JsonObject();
        data.addProperty("method", method);
        data.add(key, value);
        return data;
    }

    private String widget(String model) {
        List<String> ids = states.entrySet().stream()
                .filter(entry ->
                        entry.getValue().get("_model_name").getAsString().equals(model))
                .map(Map.Entry::getKey)
                .toList();
        assertEquals(1, ids.size(), model + " in " + states);
        return ids.get(0);
    }

    private String outputText() {
        JsonArray outputs = states.get(widget("OutputModel")).getAsJsonArray("outputs");
        var text = new StringBuilder();
        outputs.forEach(output -> {
            JsonObject json = output.getAsJsonObject();
            text.append(
                    switch (json.get("output_type").getAsString()) {
                        case "stream" -> json.get("text").getAsString();
                        case "error" ->
                            json.get("ename").getAsString() + ": "
                                    + json.get("evalue").getAsString();
                        default ->
                            json.getAsJsonObject("data").get("text/plain").getAsString();
                    });
        });
        return text.toString();
    }

    private int openComms() {
        String id = UUID.randomUUID().toString();
        send(
                shell,
                client.signed(header(id, "comm_info_request"), "{}", "{}", "{\"target_name\": \"jupyter.widget\"}"));
        List<String> reply = receive(shell);
        while (!json(reply.get(2)).get("msg_id").getAsString().equals(id)) {
            reply = receive(shell);
        }
        awaitIdle(id);
        JsonObject content = json(reply.get(4));
        assertEquals("ok", content.get("status").getAsString());
        return content.getAsJsonObject("comms").size();
    }

    @Test
    void sliderMovedInTheBrowserRedrawsTheResult() {
        List<Published> shown = run("interact(slider(\"tile\", 16, 128, 16).at(32), checkbox(\"causal\"),"
                + " (tile, causal) -> { System.out.println(\"printed\"); return tile + \" \" + causal; })");
        JsonObject data = shown.get(shown.size() - 1).data();
        JsonObject view = data.getAsJsonObject(VIEW);
        assertEquals("2 0", view.get("version_major") + " " + view.get("version_minor"));
        JsonObject box = states.get(view.get("model_id").getAsString());
        assertEquals("VBoxModel", box.get("_model_name").getAsString());
        assertEquals(3, box.getAsJsonArray("children").size());
        assertTrue(data.get("text/html").getAsString().contains("<input type=\"range\""));
        assertEquals(
                "tile = 32, causal = false\nprinted\n32 false",
                data.get("text/plain").getAsString());
        assertEquals("printed\n32 false", outputText());

        String slider = widget("IntSliderModel");
        List<Published> moved = update(slider, "value", new JsonPrimitive(96));
        assertEquals("echo_update", moved.get(0).data().get("method").getAsString());
        assertEquals("{\"value\":96}", moved.get(0).data().get("state").toString());
        assertEquals("printed\n96 false", outputText());
        update(widget("CheckboxModel"), "value", new JsonPrimitive(true));
        assertEquals("printed\n96 true", outputText());
    }

    @Test
    void statesHaveTheEntriesOfIpywidgetsModels() {
        run("interact(slider(\"n\", 1, 9, 2), slider(\"x\", 0.5, 2.0, 0.25), dropdown(\"d\", \"a\", \"b\"),"
                + " slider(\"o\", java.util.List.of(1, 2, 4)), (n, x, d, o) -> n)");
        JsonObject slider = states.get(widget("IntSliderModel"));
        Map<String, String> expected = new LinkedHashMap<>();
        expected.put("_model_module", "\"@jupyter-widgets/controls\"");
        expected.put("_model_module_version", "\"2.0.0\"");
        expected.put("_view_name", "\"IntSliderView\"");
        expected.put("_view_module", "\"@jupyter-widgets/controls\"");
        expected.put("_view_module_version", "\"2.0.0\"");
        expected.put("description", "\"n\"");
        expected.put("min", "1");
        expected.put("max", "9");
        expected.put("step", "2");
        expected.put("value", "1");
        expected.put("readout_format", "\"d\"");
        expected.put("continuous_update", "true");
        expected.forEach((key, value) -> assertEquals(value, String.valueOf(slider.get(key)), key));
        JsonObject style = states.get(references(slider).get(1));
        assertEquals("SliderStyleModel", style.get("_model_name").getAsString());
        JsonObject floats = states.get(widget("FloatSliderModel"));
        assertEquals(".2f", floats.get("readout_format").getAsString());
        assertEquals(
                "[\"a\",\"b\"]",
                states.get(widget("DropdownModel")).get("_options_labels").toString());
        assertEquals(
                "0", states.get(widget("SelectionSliderModel")).get("index").toString());
        JsonObject output = states.get(widget("OutputModel"));
        assertEquals("@jupyter-widgets/output", output.get("_model_module").getAsString());
        assertEquals("1.0.0", output.get("_model_module_version").getAsString());
    }

    @Test
    void clientWithoutAUserGetsHtmlAlone() {
        int before = openComms();
        List<Published> shown = run(
                "unattended",
                false,
                "import static cs336.notebook.widgets.Widgets.*; interact(checkbox(\"c\"), c -> c)");
        JsonObject data = shown.get(0).data();
        assertFalse(data.has(VIEW), data.toString());
        assertTrue(data.get("text/html").getAsString().contains("checkbox"), data.toString());
        assertEquals(before, openComms());
    }

    @Test
    void listenerOfACellVariableRunsBetweenCellsAndPrintsBelowTheLastCell() {
        run("var n = slider(\"n\", 1, 9, 1); int last = 0; n.onChange(value -> {"
                + " System.out.println(\"moved to \" + value); last = value; }); display(n); display(\"x\")");
        String id = widget("IntSliderModel");
        send(
                shell,
                client.signed(
                        header("moved", "comm_msg"),
                        "{}",
                        "{}",
                        "{\"comm_id\": \"" + id
                                + "\", \"data\": {\"method\": \"update\", \"state\": {\"value\": 7}}}"));
        List<String> parts = receive(published);
        while (!json(parts.get(1)).get("msg_type").getAsString().equals("stream")) {
            parts = receive(published);
        }
        assertEquals("moved to 7\n", json(parts.get(4)).get("text").getAsString());
        assertNotEquals("moved", json(parts.get(2)).get("msg_id").getAsString());
        assertEquals("7", run("last").get(0).data().get("text/plain").getAsString());
        // A cell moves the slider in the browser.
        run("n.value(2);");
        assertEquals(2, states.get(id).get("value").getAsInt());
    }

    @Test
    void valueBetweenTwoStepsMovesToTheNearest() {
        run("interact(slider(\"n\", 0, 100, 10), n -> \"n \" + n)");
        String id = widget("IntSliderModel");
        update(id, "value", new JsonPrimitive(47));
        assertEquals(50, states.get(id).get("value").getAsInt());
        assertEquals("n 50", outputText());
    }

    @Test
    void failingFunctionShowsItsErrorAndRecovers() {
        run("interact(checkbox(\"fails\"), fails -> { if (fails) { throw new java.io.IOException(\"no file\"); }"
                + " return \"fine\"; })");
        update(widget("CheckboxModel"), "value", new JsonPrimitive(true));
        assertEquals("java.io.IOException: no file", outputText());
        String traceback = states.get(widget("OutputModel"))
                .getAsJsonArray("outputs")
                .get(0)
                .getAsJsonObject()
                .get("traceback")
                .toString();
        assertTrue(
                traceback.matches("\\[\"cell \\[\\d+], line 2: java.io.IOException: no file\","
                        + "\" {4}at a lambda \\(cell \\[\\d+], line 2\\)\"]"),
                traceback);
        update(widget("CheckboxModel"), "value", new JsonPrimitive(false));
        assertEquals("fine", outputText());
    }

    @Test
    void clickRunsTheListenersOfAButton() {
        run("import cs336.notebook.widgets.*; int clicks = 0; var area = new OutputArea();"
                + " var button = new cs336.notebook.widgets.Button(\"Run\").onClick(b -> area.show(() -> ++clicks));"
                + " new VBox(java.util.List.of(button, area))");
        var event = new JsonObject();
        event.addProperty("event", "click");
        comm("comm_msg", widget("ButtonModel"), message("custom", "content", event));
        comm("comm_msg", widget("ButtonModel"), message("custom", "content", event));
        assertEquals("2", outputText());
    }

    @Test
    void interruptEndsAListener() throws Exception {
        started = new CountDownLatch(1);
        run("checkbox(\"forever\").onChange(on -> {"
                + " cs336.notebook.WidgetProtocolTest.started.countDown(); while (true) { } })");
        send(
                shell,
                client.request(
                        "comm_msg",
                        "{\"comm_id\": \"" + widget("CheckboxModel")
                                + "\", \"data\": {\"method\": \"update\", \"state\": {\"value\": true}}}"));
        started.await();
        try (ZMQ.Socket control = client.socket(SocketType.DEALER, KernelClient.Port.CONTROL)) {
            send(control, client.request("interrupt_request", "{}"));
            receive(control);
        }
        assertEquals("2", run("1 + 1").get(0).data().get("text/plain").getAsString());
    }

    @Test
    void malformedMessageIsAnsweredByAnErrorAndHasNoEffect() {
        run("interact(slider(\"tile\", 16, 128, 16), tile -> \"tile \" + tile)");
        String slider = widget("IntSliderModel");
        for (String data : List.of(
                "null",
                "{}",
                "{\"method\": 3}",
                "{\"method\": null}",
                "{\"method\": \"fly\"}",
                "{\"method\": \"update\"}",
                "{\"method\": \"update\", \"state\": []}",
                "{\"method\": \"update\", \"state\": {\"value\": 129}}",
                "{\"method\": \"update\", \"state\": {\"value\": 15}}",
                "{\"method\": \"update\", \"state\": {\"value\": 1e300}}",
                "{\"method\": \"update\", \"state\": {\"value\": \"64\"}}",
                "{\"method\": \"update\", \"state\": {\"value\": null}}",
                "{\"method\": \"update\", \"state\": {\"value\": true}}",
                "{\"method\": \"update\", \"state\": {\"value\": {\"value\": 64}}}",
                "{\"method\": \"custom\"}",
                "{\"method\": \"custom\", \"content\": 7}")) {
            List<Published> answer = comm("comm_msg", slider, JsonParser.parseString(data));
            assertTrue(answer.stream().anyMatch(message -> message.type.equals("error")), data + ": " + answer);
            assertEquals("tile 16", outputText());
            assertEquals(16, states.get(slider).get("value").getAsInt());
        }
        update(slider, "value", new JsonPrimitive(64));
        assertEquals("tile 64", outputText());
    }

    @Test
    void refusedValueIsReplacedInTheBrowser() {
        run("interact(slider(\"tile\", 16, 128, 16), tile -> \"tile \" + tile)");
        String slider = widget("IntSliderModel");
        states.get(slider).addProperty("value", 999);
        update(slider, "value", new JsonPrimitive(999));
        assertEquals(16, states.get(slider).get("value").getAsInt());
    }

    @Test
    void unknownCommIsAnsweredByAnErrorAndAnUnknownTargetIsClosed() {
        List<Published> answer = comm("comm_msg", "nobody", message("request_state", "state", new JsonObject()));
        assertEquals("error", answer.get(0).type);
        assertTrue(answer.get(0).content.get("evalue").getAsString().contains("nobody"), answer.toString());
        assertEquals(List.of(), comm("comm_close", "nobody", new JsonObject()));
        var open = new JsonObject();
        open.addProperty("comm_id", "new");
        open.addProperty("target_name", "elsewhere");
        open.add("data", new JsonObject());
        assertEquals("comm_close", request("comm_open", "{}", open).get(0).type);
        assertEquals("error", request("comm_msg", "{}", new JsonObject()).get(0).type);
    }

    @Test
    void commMessagesOnTheControlChannelAreRefused() {
        run("interact(slider(\"tile\", 16, 128, 16), tile -> \"tile \" + tile)");
        String slider = widget("IntSliderModel");
        try (ZMQ.Socket control = client.socket(SocketType.DEALER, KernelClient.Port.CONTROL)) {
            send(
                    control,
                    client.request(
                            "comm_msg",
                            "{\"comm_id\": \"" + slider
                                    + "\", \"data\": {\"method\": \"update\", \"state\": {\"value\": 64}}}"));
            send(control, client.request("kernel_info_request", "{}"));
            receive(control);
        }
        comm("comm_msg", slider, message("request_state", "state", new JsonObject()));
        assertEquals("tile 16", outputText());
        assertEquals(16, states.get(slider).get("value").getAsInt());
    }

    @Test
    void reloadedPageGetsAllStates() {
        run("interact(slider(\"tile\", 16, 128, 16), tile -> \"tile \" + tile)");
        String slider = widget("IntSliderModel");
        update(slider, "value", new JsonPrimitive(64));
        var open = new JsonObject();
        open.addProperty("comm_id", "reload");
        open.addProperty("target_name", "jupyter.widget.control");
        open.add("data", new JsonObject());
        request("comm_open", "{\"version\": \"1.0.0\"}", open);
        var ask = new JsonObject();
        ask.addProperty("method", "request_states");
        JsonObject answer = comm("comm_msg", "reload", ask).get(0).data();
        comm("comm_close", "reload", new JsonObject());
        assertEquals("update_states", answer.get("method").getAsString());
        JsonObject model = answer.getAsJsonObject("states").getAsJsonObject(slider);
        assertEquals("IntSliderModel", model.get("model_name").getAsString());
        assertEquals("@jupyter-widgets/controls", model.get("model_module").getAsString());
        assertEquals("2.0.0", model.get("model_module_version").getAsString());
        assertEquals(64, model.getAsJsonObject("state").get("value").getAsInt());
        assertTrue(answer.getAsJsonObject("states").size() >= 5, answer.toString());
        comm("comm_msg", slider, message("request_state", "state", new JsonObject()));
        assertEquals(64, states.get(slider).get("value").getAsInt());
    }

    @Test
    void cellThatRunsAgainClosesWhatItShowed() {
        String cell = "import static cs336.notebook.widgets.Widgets.*; interact(checkbox(\"c\"), c -> c)";
        run("again", true, cell);
        int open = openComms();
        for (int i = 0; i < 3; i++) {
            run("again", true, cell);
        }
        assertEquals(open, openComms());
        update(widget("CheckboxModel"), "value", new JsonPrimitive(true));
        assertEquals("true", outputText());
    }

    @Test
    void sharedControlStaysOpenWhileAnotherCellUsesIt() {
        run("declares", true, "import static cs336.notebook.widgets.Widgets.*; var shared = slider(\"s\", 1, 9, 1);");
        run("one", true, "interact(List.of(shared), () -> \"one \" + shared.value())");
        run("two", true, "interact(List.of(shared), () -> \"two \" + shared.value())");
        run("one", true, "1");
        update(widget("IntSliderModel"), "value", new JsonPrimitive(5));
        assertEquals("two 5", outputText());
    }

    @Test
    void commClosedByTheBrowserIsForgotten() {
        int before = openComms();
        run("checkbox(\"c\").onChange(c -> { })");
        for (String id : List.copyOf(states.keySet())) {
            comm("comm_close", id, new JsonObject());
        }
        assertEquals(before, openComms());
    }

    @Test
    void survivesRandomMessages() {
        run("interact(slider(\"n\", 1, 9, 1), dropdown(\"d\", 1, 2), (n, d) -> n + d)");
        var random = new Random(5);
        List<String> ids = new ArrayList<>(states.keySet());
        List<String> words =
                List.of("update", "request_state", "custom", "state", "value", "index", "content", "event");
        for (int i = 0; i < 150; i++) {
            comm("comm_msg", ids.get(random.nextInt(ids.size())), randomJson(random, words, 0));
        }
        states.keySet().removeIf(id -> !ids.contains(id));
        update(widget("IntSliderModel"), "value", new JsonPrimitive(9));
        update(widget("DropdownModel"), "index", new JsonPrimitive(1));
        assertEquals("11", outputText());
    }

    private static JsonElement randomJson(Random random, List<String> words, int depth) {
        String word = words.get(random.nextInt(words.size()));
        if (depth == 0 || depth < 3 && random.nextBoolean()) {
            var object = new JsonObject();
            if (depth == 0) {
                object.addProperty("method", words.get(random.nextInt(3)));
            }
            for (int i = random.nextInt(3); i >= 0; i--) {
                object.add(words.get(random.nextInt(words.size())), randomJson(random, words, depth + 1));
            }
            return object;
        }
        return switch (random.nextInt(4)) {
            case 0 -> new JsonPrimitive(word);
            case 1 -> new JsonPrimitive(random.nextGaussian() * 20);
            case 2 -> new JsonPrimitive(random.nextBoolean());
            default -> new JsonPrimitive(random.nextInt(12));
        };
    }
}
