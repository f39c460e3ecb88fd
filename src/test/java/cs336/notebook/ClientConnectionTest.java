package cs336.notebook;

import static cs336.notebook.KernelClient.DELIMITER;
import static cs336.notebook.KernelClient.REPLY_MS;
import static cs336.notebook.KernelClient.bytes;
import static cs336.notebook.KernelClient.header;
import static cs336.notebook.KernelClient.json;
import static cs336.notebook.KernelClient.receive;
import static cs336.notebook.KernelClient.send;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import cs336.bench.AttackCount;
import cs336.bench.TestJvm;
import cs336.notebook.KernelClient.Port;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/** A kernel that is connected to a client of this test, which sends malformed messages. */
public class ClientConnectionTest {
    /** Time in which a reply that must not be sent would arrive. */
    private static final int NO_REPLY_MS = 300;

    private static final Logger LOG = Logger.getLogger(ServingLoop.class.getName());

    @TempDir
    private Path folder;

    /** A cell's thread waits for it. */
    public static volatile CountDownLatch released;

    private static KernelClient peer;
    private static ClientConnection connection;
    private static JavaKernel kernel;

    @BeforeAll
    static void connect() throws Exception {
        LOG.setLevel(Level.OFF);
        peer = new KernelClient();
        connection = new ClientConnection(peer.properties());
        kernel = new JavaKernel(Imports.PORTABLE, null);
        connection.serve(kernel);
        connection.connect();
    }

    @AfterAll
    static void close() {
        LOG.setLevel(null);
        peer.close();
        connection.close();
        kernel.close();
    }

    private static ZMQ.Socket client(SocketType type, Port port) {
        return peer.socket(type, port);
    }

    private static List<byte[]> signed(String... parts) {
        return peer.signed(parts);
    }

    private static List<byte[]> request(String type, String content) {
        return peer.request(type, content);
    }

    private static void assertAnswers(ZMQ.Socket socket) {
        List<byte[]> request = request("kernel_info_request", "{}");
        String id = json(new String(request.get(2), StandardCharsets.UTF_8))
                .get("msg_id")
                .getAsString();
        send(socket, request);
        List<String> reply = receive(socket);
        // Messages that a mutation left valid are answered, too.
        while (reply != null && !json(reply.get(2)).toString().contains(id)) {
            reply = receive(socket);
        }
        assertNotNull(reply, "the kernel does not answer any more");
        assertEquals("kernel_info_reply", json(reply.get(1)).get("msg_type").getAsString());
    }

    private static void assertBeats(ZMQ.Socket heart) {
        byte[] ping = bytes("ping " + UUID.randomUUID());
        heart.send(ping);
        assertArrayEquals(ping, heart.recv(), "no heartbeat");
    }

    static Stream<List<byte[]>> malformedMessages() {
        String header = header("m", "kernel_info_request");
        String deep = "[".repeat(200_000) + "]".repeat(200_000);
        String deepObject = "{\"a\":".repeat(200_000) + "1" + "}".repeat(200_000);
        List<byte[]> wrongSignature = signed(header, "{}", "{}", "{}");
        wrongSignature.set(1, bytes("0".repeat(64)));
        List<byte[]> shortSignature = signed(header, "{}", "{}", "{}");
        shortSignature.set(1, bytes("12ab"));
        List<byte[]> noSignature = signed(header, "{}", "{}", "{}");
        noSignature.set(1, new byte[0]);
        List<byte[]> oversizedSignature = signed(header, "{}", "{}", "{}");
        oversizedSignature.set(1, new byte[1 << 20]);
        return Stream.of(
                wrongSignature,
                shortSignature,
                noSignature,
                oversizedSignature,
                List.of(bytes("no delimiter at all")),
                List.of(new byte[0]),
                List.of(bytes(DELIMITER)),
                List.of(bytes(DELIMITER), bytes("signature")),
                signed(header),
                signed(header, "{}", "{}"),
                signed("{", "{}", "{}", "{}"),
                signed("", "{}", "{}", "{}"),
                signed("null", "{}", "{}", "{}"),
                signed("[]", "{}", "{}", "{}"),
                signed("{}", "{}", "{}", "{}"),
                signed(header.replace("msg_type", "no_type"), "{}", "{}", "{}"),
                signed(header.replace("\"kernel_info_request\"", "null"), "{}", "{}", "{}"),
                signed(header.replace("\"kernel_info_request\"", "{}"), "{}", "{}", "{}"),
                signed(header.replace("kernel_info_request", "no_such_request"), "{}", "{}", "{}"),
                signed(header("d", "execute_request").replace("\"date\"", "\"day\""), "{}", "{}", "null"),
                signed(header, "null", "{}", "{}"),
                signed(header, "{\"msg_id\": 3}", "{}", "{}"),
                signed(header, "{}", "3", "{}"),
                signed(header, "{}", "{}", "null"),
                signed(header, "{}", "{}", "\"text\""),
                signed(deep, "{}", "{}", "{}"),
                signed(header, deepObject, "{}", "{}"),
                signed(header, "{}", deepObject, "{}"),
                signed(header("e", "execute_request"), "{}", "{}", "{\"code\": " + deep + "}"),
                signed(header("h", "history_request"), "{}", "{}", "{\"hist_access_type\": \"none\"}"),
                signed(header("i", "is_complete_request"), "{}", "{}", "{}"),
                signed(header("c", "complete_request"), "{}", "{}", "{\"code\": \"x\", \"cursor_pos\": -7}"),
                signed(header("o", "comm_open"), "{}", "{}", "{}"));
    }

    @ParameterizedTest
    @MethodSource("malformedMessages")
    void requestAfterAMalformedMessageIsAnswered(List<byte[]> malformed) {
        for (Port port : List.of(Port.SHELL, Port.CONTROL)) {
            try (ZMQ.Socket socket = client(SocketType.DEALER, port)) {
                send(socket, malformed);
                assertAnswers(socket);
            }
        }
    }

    @Test
    void replayedMessageIsNotHandledAgainOnAnyPort() {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL);
                ZMQ.Socket control = client(SocketType.DEALER, Port.CONTROL)) {
            List<byte[]> request = request("kernel_info_request", "{}");
            send(shell, request);
            assertNotNull(receive(shell));
            send(shell, request);
            send(control, request);
            for (ZMQ.Socket socket : List.of(shell, control)) {
                socket.setReceiveTimeOut(NO_REPLY_MS);
                assertNull(receive(socket));
                socket.setReceiveTimeOut(REPLY_MS);
                assertAnswers(socket);
            }
        }
    }

    /** Runs a cell whose thread goes on after it, and checks that the output of the thread is sent for this cell. */
    private static void assertShownAfterItsCell(String declaration, String statement, String messageType) {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL);
                ZMQ.Socket published = client(SocketType.SUB, Port.IOPUB)) {
            published.subscribe(new byte[0]);
            assertAnswers(shell);
            released = new CountDownLatch(1);
            String cell = "{\"code\": \"" + declaration + " new Thread(() -> {"
                    + " try { cs336.notebook.ClientConnectionTest.released.await(); } catch (InterruptedException e) {}"
                    + statement + " }).start();\"}";
            send(shell, request("execute_request", cell));
            List<String> reply = receive(shell);
            assertEquals("ok", json(reply.get(4)).get("status").getAsString(), reply.toString());
            released.countDown();
            List<String> message = receive(published);
            while (message != null && !message.get(4).contains("1042")) {
                message = receive(published);
            }
            assertNotNull(message, "the output is lost");
            assertEquals(messageType, json(message.get(1)).get("msg_type").getAsString());
            assertEquals(json(reply.get(2)).get("msg_id"), json(message.get(2)).get("msg_id"));
        }
    }

    @Test
    void textThatAThreadPrintsAfterItsCellIsShown() {
        assertShownAfterItsCell("var out = System.out;", "out.println(42 + 1000);", "stream");
    }

    @Test
    void displayThatAThreadUpdatesAfterItsCellIsShown() {
        assertShownAfterItsCell("String id = display(1);", "updateDisplay(id, 42 + 1000);", "update_display_data");
    }

    /** Runs a cell that the client sent in an earlier year, so that it does not abort cells of other tests. */
    private static String statusInThePast(ZMQ.Socket shell, String code, boolean stopOnError) {
        String header = header(UUID.randomUUID().toString(), "execute_request").replace("2026", "2025");
        String content = "{\"code\": \"" + code + "\", \"stop_on_error\": " + stopOnError + "}";
        send(shell, signed(header, "{}", "{}", content));
        return json(receive(shell).get(4)).get("status").getAsString();
    }

    @Test
    void failedCellDecidesWhetherQueuedCellsAreAborted() {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL)) {
            assertEquals("error", statusInThePast(shell, "1 / 0", false));
            assertEquals("ok", statusInThePast(shell, "1 + 1", true));
            assertEquals("error", statusInThePast(shell, "1 / 0", true));
            assertEquals("aborted", statusInThePast(shell, "1 + 1", true));
            assertEquals("aborted", statusInThePast(shell, "1 + 1", false));
            send(shell, request("execute_request", "{\"code\": \"1 + 1\"}"));
            assertEquals("ok", json(receive(shell).get(4)).get("status").getAsString());
        }
    }

    @Test
    void theIdOfACellTellsWhichMethodItsRerunReplaces() {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL)) {
            for (String type : List.of("int", "double")) {
                String code = "String typeOf(" + type + " n) { return \\\"" + type + "\\\"; }"
                        + " if (!typeOf(1).equals(\\\"" + type + "\\\")) throw new Error(typeOf(1));";
                String header = header(UUID.randomUUID().toString(), "execute_request");
                send(shell, signed(header, "{}", "{\"cellId\": \"typed\"}", "{\"code\": \"" + code + "\"}"));
                List<String> reply = receive(shell);
                assertEquals("ok", json(reply.get(4)).get("status").getAsString(), reply.toString());
            }
        }
    }

    private static int count(ZMQ.Socket shell, String options) {
        send(shell, request("execute_request", "{\"code\": \"7000 + 7\", \"store_history\": true" + options + "}"));
        return json(receive(shell).get(4)).get("execution_count").getAsInt();
    }

    @Test
    void silentCellIsNeitherShownNorCounted() {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL);
                ZMQ.Socket published = client(SocketType.SUB, Port.IOPUB)) {
            published.subscribe(new byte[0]);
            assertAnswers(shell);
            int before = count(shell, "");
            count(shell, ", \"silent\": true");
            assertEquals(before + 1, count(shell, ""));
            int shown = 0;
            published.setReceiveTimeOut(NO_REPLY_MS);
            for (List<String> message = receive(published); message != null; message = receive(published)) {
                shown += message.get(4).contains("7007") ? 1 : 0;
            }
            assertEquals(2, shown);
        }
    }

    @Test
    void completionsCarryTheirKinds() {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL)) {
            send(shell, request("complete_request", "{\"code\": \"Math.ab\", \"cursor_pos\": 7}"));
            String metadata = json(receive(shell).get(4)).get("metadata").toString();
            assertTrue(metadata.contains("\"text\":\"abs(\"") && metadata.contains("\"type\":\"function\""), metadata);
        }
    }

    @Test
    void positionsCountCodePointsAndWrongOnesAreAnswered() {
        try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL)) {
            send(shell, request("complete_request", "{\"code\": \"\\\"🙂\\\".leng\", \"cursor_pos\": 8}"));
            JsonObject reply = json(receive(shell).get(4));
            assertEquals("[\"length()\"]", reply.get("matches").toString());
            assertEquals(4, reply.get("cursor_start").getAsInt());
            assertEquals(8, reply.get("cursor_end").getAsInt());
            for (String type : List.of("complete", "inspect")) {
                for (int position : new int[] {Integer.MIN_VALUE, -1, 9, Integer.MAX_VALUE}) {
                    String content = "{\"code\": \"Math.ab\", \"cursor_pos\": %d, \"detail_level\": 0}";
                    send(shell, request(type + "_request", content.formatted(position)));
                    assertEquals("ok", json(receive(shell).get(4)).get("status").getAsString());
                }
            }
        }
    }

    @Test
    void heartbeatOfSeveralFramesIsEchoedWhole() {
        try (ZMQ.Socket heart = client(SocketType.REQ, Port.HEARTBEAT)) {
            heart.sendMore("one");
            heart.send("two");
            assertEquals("one", heart.recvStr());
            assertTrue(heart.hasReceiveMore());
            assertEquals("two", heart.recvStr());
            assertBeats(heart);
        }
    }

    /** Returns the id of the request. */
    private static String sendExecute(ZMQ.Socket shell, String content) {
        String id = UUID.randomUUID().toString();
        send(shell, signed(header(id, "execute_request"), "{}", "{}", content));
        return id;
    }

    @Test
    void cellReadsTheInputThatFollowsMalformedReplies() {
        // The kernel asks the client whose identity is that of the request.
        try (ZMQ.Socket shell = peer.socket(SocketType.DEALER, Port.SHELL, "one client");
                ZMQ.Socket control = client(SocketType.DEALER, Port.CONTROL);
                ZMQ.Socket input = peer.socket(SocketType.DEALER, Port.STDIN, "one client")) {
            malformedMessages().forEach(malformed -> send(input, malformed));
            send(input, request("kernel_info_request", "{}"));
            String read = "{\"allow_stdin\": true, \"code\": \"System.in.read()\"}";
            input.setReceiveTimeOut(NO_REPLY_MS);
            shell.setReceiveTimeOut(NO_REPLY_MS);
            String current = sendExecute(shell, read);
            String status = "";
            // The prompt is lost if the kernel does not know the input port's client yet; an interrupt ends the wait.
            // On a
            // busy host an interrupt may end a cell that has asked for input since.
            int interrupts = 0;
            for (int attempt = 0; attempt < 100 && !status.equals("ok"); attempt++) {
                List<String> prompt = receive(input);
                List<String> reply;
                if (prompt != null
                        && !json(prompt.get(2)).get("msg_id").getAsString().equals(current)) {
                    continue; // of a cell that was interrupted since
                } else if (prompt != null) {
                    assertEquals(
                            "input_request", json(prompt.get(1)).get("msg_type").getAsString());
                    send(input, request("input_reply", "{\"value\": \"A\"}"));
                    shell.setReceiveTimeOut(REPLY_MS);
                    reply = receive(shell);
                    shell.setReceiveTimeOut(NO_REPLY_MS);
                    assertNotNull(reply, "the cell does not end");
                } else {
                    send(control, request("interrupt_request", "{}"));
                    interrupts++;
                    reply = receive(shell);
                }
                if (reply != null) {
                    status = json(reply.get(4)).get("status").getAsString();
                    assertTrue(status.equals("ok") || interrupts-- > 0, reply::toString);
                    if (!status.equals("ok")) {
                        current = sendExecute(shell, read);
                    }
                }
            }
            assertEquals("ok", status, "no cell has read its input");
        }
    }

    /** Mutations of valid and malformed messages, each signed or not, then bytes without any protocol. */
    @Test
    void survivesRandomBytesOnEveryPort() throws Exception {
        var random = new Random(18);
        List<List<byte[]>> seeds = malformedMessages()
                .filter(message -> message.stream().allMatch(frame -> frame.length < 1000))
                .toList();
        int inputs = 0;
        int rounds = AttackCount.times(10);
        for (int round = 0; round < rounds; round++) {
            for (Port port : List.of(Port.SHELL, Port.CONTROL, Port.STDIN, Port.HEARTBEAT)) {
                try (ZMQ.Socket socket = client(SocketType.DEALER, port)) {
                    for (int i = 0; i < 50; i++) {
                        send(socket, mutated(seeds.get(random.nextInt(seeds.size())), random));
                        inputs++;
                    }
                }
            }
            for (Port port : Port.values()) {
                for (int i = 0; i < 10; i++) {
                    sendRaw(port, random);
                    inputs++;
                }
            }
            try (ZMQ.Socket shell = client(SocketType.DEALER, Port.SHELL);
                    ZMQ.Socket control = client(SocketType.DEALER, Port.CONTROL);
                    ZMQ.Socket heart = client(SocketType.REQ, Port.HEARTBEAT)) {
                assertAnswers(shell);
                assertAnswers(control);
                assertBeats(heart);
            }
        }
        assertEquals(250 * rounds, inputs);
        AttackCount.inputs(inputs, "messages to the Jupyter kernel");
    }

    private static List<byte[]> mutated(List<byte[]> message, Random random) {
        List<byte[]> frames =
                new ArrayList<>(message.stream().map(byte[]::clone).toList());
        for (int edits = 1 + random.nextInt(3); edits > 0; edits--) {
            int index = random.nextInt(frames.size());
            byte[] frame = frames.get(index);
            switch (random.nextInt(5)) {
                case 0 -> frames.add(index, randomBytes(random, random.nextInt(200)));
                case 1 -> frames.set(index, randomBytes(random, random.nextInt(200)));
                case 2 -> frames.set(index, Arrays.copyOf(frame, random.nextInt(frame.length + 5)));
                case 3 -> {
                    if (frames.size() > 1) {
                        frames.remove(index);
                    }
                }
                default -> {
                    for (int flips = 0; flips < 4 && frame.length > 0; flips++) {
                        frame[random.nextInt(frame.length)] = (byte) random.nextInt();
                    }
                }
            }
        }
        if (random.nextBoolean() && frames.size() >= 6) {
            byte[][] parts = frames.subList(2, 6).toArray(byte[][]::new);
            frames.set(0, bytes(DELIMITER));
            frames.set(1, bytes(peer.signature(parts)));
        }
        return frames;
    }

    private static void sendRaw(Port port, Random random) throws IOException {
        byte[] greeting = new byte[64]; // ZMTP 3.0 with the mechanism NULL
        greeting[0] = (byte) 0xFF;
        greeting[9] = 0x7F;
        greeting[10] = 3;
        System.arraycopy(bytes("NULL"), 0, greeting, 12, 4);
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), peer.number(port))) {
            switch (random.nextInt(4)) {
                case 0 -> socket.getOutputStream().write(randomBytes(random, 1 + random.nextInt(5000)));
                case 1 -> {
                    greeting[random.nextInt(64)] = (byte) random.nextInt();
                    socket.getOutputStream().write(greeting);
                    socket.getOutputStream().write(randomBytes(random, random.nextInt(200)));
                }
                case 2 -> {
                    socket.getOutputStream().write(greeting);
                    // A long command or message that declares up to 2^63 bytes.
                    socket.getOutputStream().write(new byte[] {(byte) random.nextInt(8)});
                    socket.getOutputStream().write(randomBytes(random, 8 + random.nextInt(100)));
                }
                default -> socket.getOutputStream().write("GET / HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException e) {
            // The kernel may close the connection at any byte.
        }
    }

    private static byte[] randomBytes(Random random, int length) {
        var bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    @Test
    void messageThatCannotBeHandledDoesNotEndTheLoop() throws InterruptedException {
        List<String> handled = new ArrayList<>();
        List<String> sent = new ArrayList<>(List.of("bad", "good"));
        List<String> ended = new ArrayList<>();
        var loop = new ServingLoop[1];
        loop[0] = new ServingLoop(
                "test",
                () -> List.of(bytes(sent.remove(0))),
                frames -> {
                    String text = new String(frames.get(0), StandardCharsets.UTF_8);
                    if (text.equals("bad")) {
                        throw new StackOverflowError();
                    }
                    handled.add(text);
                    loop[0].finish();
                },
                () -> ended.add("failed"));
        loop[0].start();
        loop[0].join();
        assertEquals(List.of("good"), handled);
        assertEquals(List.of(), ended);
    }

    @Test
    void channelThatFailsEndsTheKernel() throws InterruptedException {
        List<String> ended = new ArrayList<>();
        var loop = new ServingLoop(
                "test",
                () -> {
                    throw new IllegalStateException("the socket is closed");
                },
                frames -> {},
                () -> ended.add("failed"));
        loop.start();
        loop.join();
        assertEquals(List.of("failed"), ended);
    }

    @Test
    void shutdownEndsTheProcessWhileACellCannotBeStopped() throws Exception {
        Path file = folder.resolve("connection.json");
        Process process = null;
        try (KernelClient own = new KernelClient();
                ZMQ.Socket shell = own.socket(SocketType.DEALER, Port.SHELL);
                ZMQ.Socket control = own.socket(SocketType.DEALER, Port.CONTROL)) {
            Files.writeString(file, own.properties().toJsonString());
            process = start(file);
            assertAnswers(shell);
            send(
                    shell,
                    request(
                            "execute_request",
                            "{\"code\": \"while (true) try { Thread.sleep(9999); } catch (Throwable t) { }\"}"));
            send(control, request("shutdown_request", "{\"restart\": false}"));
            assertNotNull(receive(control), "no reply to the shutdown request");
            assertEquals(0, process.waitFor());
        } finally {
            if (process != null) {
                process.destroyForcibly();
            }
        }
    }

    @Test
    void kernelEndsWithTheServerThatStartedItAndWasKilled() throws Exception {
        Path file = folder.resolve("connection.json");
        try (KernelClient own = new KernelClient();
                ZMQ.Socket shell = own.socket(SocketType.DEALER, Port.SHELL)) {
            Files.writeString(file, own.properties().toJsonString());
            ProcessBuilder kernelCommand = TestJvm.of(JavaKernel.class, file.toString());
            List<String> command = new ArrayList<>(List.of("sh", "-c", "\"$@\" & wait", "server"));
            command.addAll(kernelCommand.command());
            kernelCommand.environment().put(JavaKernel.STARTED_BY_JUPYTER, "of the shell");
            Process server = kernelCommand
                    .command(command)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            assertAnswers(shell);
            ProcessHandle started = server.children().findFirst().orElseThrow();
            try {
                server.destroyForcibly();
                started.onExit().get(30, TimeUnit.SECONDS);
            } finally {
                started.destroyForcibly();
            }
        }
    }

    @Test
    void portInUseIsReportedOnStandardError() throws Exception {
        Path file = folder.resolve("connection.json");
        Path log = folder.resolve("log");
        try (KernelClient own = new KernelClient();
                ServerSocket used = new ServerSocket(own.number(Port.HEARTBEAT), 1, InetAddress.getLoopbackAddress())) {
            Files.writeString(file, own.properties().toJsonString());
            Process process = TestJvm.of(JavaKernel.class, file.toString())
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(log.toFile())
                    .start();
            assertEquals(1, process.waitFor());
            String said = "the kernel cannot listen at the ports in " + file + ": a port is in use\n";
            assertTrue(Files.readString(log).contains(said), Files.readString(log));
            assertTrue(used.isBound());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "x", "null", "[]", "{", "{}", "{\"ip\": 3, \"shell_port\": \"x\"}"})
    void brokenConnectionFileIsNamed(String text) throws Exception {
        Path file = Files.writeString(folder.resolve("broken.json"), text);
        IllegalArgumentException error =
                assertThrows(IllegalArgumentException.class, () -> JavaKernel.connection(file));
        assertTrue(error.getMessage().startsWith(file + " is not a connection file"), error.getMessage());
        assertFalse(error.getMessage().matches("(?s).*(\n|gson).*"), error.getMessage());
    }

    private static Process start(Path connectionFile) throws IOException {
        return TestJvm.of(JavaKernel.class, connectionFile.toString())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
    }
}
