package cs336.profile;

import static cs336.profile.TraceText.ENGINE;
import static cs336.profile.TraceText.MAIN;
import static cs336.profile.TraceText.deviceTime;
import static cs336.profile.TraceText.hostTime;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import cs336.bench.AttackCount;
import cs336.bench.RandomDamage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TraceTest {
    @TempDir
    private Path folder;

    private static HostEvent host(Trace trace, String name) {
        return trace.host().stream()
                .filter(e -> e.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static DeviceEvent device(Trace trace, String name) {
        return trace.device().stream()
                .filter(e -> e.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static List<List<String>> forwardRanges(Trace trace) {
        return trace.work().stream().map(DeviceEvent::forwardRange).toList();
    }

    private static Path python() throws IOException {
        return Path.of("src/test/resources/cs336/profile/python-h200.json.gz");
    }

    @Test
    void eventsNestAndSelfTimesExcludeChildren() {
        Trace trace = new TraceText()
                .op(MAIN, "inner", 200, 450)
                .range(MAIN, "outer", 100, 1100)
                .op(MAIN, "middle", 150, 500)
                .op(MAIN, "last", 500, 1100)
                .op(MAIN, "after", 2000, 2007)
                .read();
        assertEquals(
                List.of("outer", "middle", "inner", "last", "after"),
                trace.host().stream().map(HostEvent::name).toList());
        assertSame(host(trace, "middle"), host(trace, "inner").parent());
        assertSame(host(trace, "outer"), host(trace, "middle").parent());
        assertSame(host(trace, "outer"), host(trace, "last").parent());
        assertNull(host(trace, "outer").parent());
        assertNull(host(trace, "after").parent());
        assertEquals(50, host(trace, "outer").self());
        assertEquals(100, host(trace, "middle").self());
        assertEquals(250, host(trace, "inner").self());
        assertEquals(600, host(trace, "last").self());
        assertEquals(1007, hostTime(trace));
    }

    @Test
    void ofEventsWithTheSameTimesTheRangeContainsTheOperatorAndThatTheCall() {
        Trace trace = new TraceText()
                .launch(MAIN, 100, 200, 1)
                .op(MAIN, "first", 100, 200)
                .op(MAIN, "second", 100, 200)
                .range(MAIN, "range", 100, 200)
                .read();
        assertEquals(
                List.of("range", "first", "second", "cudaLaunchKernel"),
                trace.host().stream().map(HostEvent::name).toList());
        assertSame(host(trace, "second"), host(trace, "cudaLaunchKernel").parent());
        assertSame(host(trace, "first"), host(trace, "second").parent());
        assertSame(host(trace, "range"), host(trace, "first").parent());
        assertEquals(100, hostTime(trace));
        assertEquals(100, host(trace, "cudaLaunchKernel").self());
    }

    @Test
    void eventsWithoutDurationAreInsideTheEventThatStartsWithThem() {
        Trace trace = new TraceText()
                .op(MAIN, "before", 0, 100)
                .op(MAIN, "instant", 100, 100)
                .op(MAIN, "after", 100, 200)
                .range(MAIN, "empty", 300, 300)
                .op(MAIN, "inside empty", 300, 300)
                .read();
        assertSame(host(trace, "after"), host(trace, "instant").parent());
        assertSame(host(trace, "empty"), host(trace, "inside empty").parent());
        assertNull(host(trace, "after").parent());
        assertEquals(200, hostTime(trace));
        assertEquals(0, host(trace, "instant").self());
    }

    @Test
    void onlyCopiesBetweenGpuAndHostAreHostTransfers() {
        Trace trace = new TraceText()
                .device("gpu_memcpy", 9, "Memcpy HtoD (Pinned -> Device)", 0, 1)
                .device("gpu_memcpy", 9, "Memcpy DtoH (Device -> Pageable)", 2, 3)
                .device("gpu_memcpy", 9, "Memcpy DtoD (Device -> Device)", 4, 5)
                .device("kernel", 9, "copyHtoD", 6, 7)
                .read();
        assertEquals(
                List.of(true, true, false, false),
                trace.device().stream().map(DeviceEvent::isHostTransfer).toList());
    }

    @Test
    void timeOfOverlappingEventsBelongsToTheOneThatStartedLast() {
        Trace trace = new TraceText()
                .op(MAIN, "x", 0, 100)
                .op(MAIN, "y", 50, 150)
                .op(MAIN, "inside y", 110, 120)
                .read();
        assertNull(host(trace, "y").parent());
        assertSame(host(trace, "y"), host(trace, "inside y").parent());
        assertEquals(50, host(trace, "x").self());
        assertEquals(90, host(trace, "y").self());
        assertEquals(150, hostTime(trace));
    }

    @Test
    void threadsNestSeparately() {
        Trace trace = new TraceText()
                .range(MAIN, "main", 0, 1000)
                .op(ENGINE, "worker", 100, 300)
                .op("\"pid\": 2, \"tid\": 10", "other process", 100, 300)
                .read();
        assertNull(host(trace, "worker").parent());
        assertNull(host(trace, "other process").parent());
        assertEquals(1400, hostTime(trace));
        assertEquals(new HostThread("1", "20"), host(trace, "worker").thread());
    }

    @Test
    void aKernelHasTheRangeOfTheCallWithItsCorrelation() {
        Trace trace = new TraceText()
                .range(MAIN, "ProfilerStep#3", 0, 2000)
                .range(MAIN, "attn", 10, 900)
                .range(MAIN, "softmax", 100, 500)
                .op(MAIN, "aten::softmax", 110, 490)
                .launch(MAIN, 120, 130, 7)
                .launch(MAIN, 950, 960, 8)
                .launch(MAIN, 3000, 3010, 9)
                .kernel(7, "late", 5000, 5100, 7) // ran long after the range ended
                .kernel(7, "outside", 5100, 5110, 8)
                .kernel(9, "early", 100, 130, 9) // ran while another range was open
                .read();
        assertEquals(List.of("attn", "softmax"), device(trace, "late").range());
        assertEquals("aten::softmax", device(trace, "late").operator().name());
        assertEquals(3, device(trace, "late").step());
        assertEquals(List.of(), device(trace, "outside").range());
        assertEquals(3, device(trace, "outside").step());
        assertEquals(List.of(), device(trace, "early").range());
        assertEquals(-1, device(trace, "early").step());
        assertEquals(new DeviceStream(0, 9), device(trace, "early").stream());
        assertEquals(140, deviceTime(trace));
    }

    @Test
    void ofNestedCallsWithOneCorrelationTheOuterOneLaunchesTheKernel() {
        Trace trace = new TraceText()
                .op(MAIN, "aten::softmax", 100, 500)
                .launch(MAIN, 120, 140, 7)
                .event("cuda_driver", MAIN, "cuLaunchKernelEx", 125, 135, "\"correlation\": 7")
                .kernel(7, "softmax", 200, 300, 7)
                .read();
        assertEquals("cudaLaunchKernel", device(trace, "softmax").launch().name());
        assertEquals(
                "aten::softmax;softmax 100\n",
                FoldedStacks.of(trace, FoldedStacks.Time.DEVICE).toString());
    }

    /** The profiler does not record the call that launches a CUDA graph. */
    @Test
    void aKernelWithoutItsCallBelongsToTheStepDuringWhichItStarts() {
        Trace trace = new TraceText()
                .range(MAIN, "ProfilerStep#0", 0, 1000)
                .range(MAIN, "ProfilerStep#1", 1000, 2000)
                .launch(MAIN, 900, 910, 7)
                .kernel(7, "before", 950, 1050, 8)
                .kernel(7, "launched", 1100, 1200, 7)
                .kernel(7, "graph", 1200, 1300, 9)
                .kernel(7, "after", 2100, 2200, 10)
                .read();
        assertEquals(List.of("before", "launched"), names(trace.step(0)));
        assertEquals(List.of("graph"), names(trace.step(1)));
        assertEquals(0, device(trace, "before").step());
        assertEquals(1, device(trace, "graph").step());
        assertEquals(-1, device(trace, "after").step());
        assertEquals(2, KernelTable.of(trace).step(0).launches().size());
    }

    private static List<String> names(Trace trace) {
        return trace.work().stream().map(DeviceEvent::name).toList();
    }

    @Test
    void aKernelWithoutItsCallBelongsToTheOperatorThatItNamesOrToNone() {
        Trace trace = new TraceText()
                .range(MAIN, "forward", 0, 100)
                .external(MAIN, "aten::mm", 10, 90, 55)
                .device("kernel", 7, "named", 200, 300, "\"correlation\": 1, \"External id\": 55")
                .device("kernel", 7, "lost", 300, 400, "\"correlation\": 2")
                .device("gpu_user_annotation", 7, "forward", 200, 400, "\"External id\": 55")
                .read();
        assertEquals(List.of("forward"), device(trace, "named").range());
        assertNull(device(trace, "lost").launch());
        assertEquals(List.of(), device(trace, "lost").range());
        assertEquals(200, deviceTime(trace));
        assertEquals(2, trace.work().size());
    }

    @Test
    void backwardKernelsHaveTheRangesOfTheWaitingThreadAndOfTheirForwardOperator() {
        Trace trace = new TraceText()
                .range(MAIN, "forward", 0, 400)
                .range(MAIN, "embedding", 0, 50)
                .op(MAIN, "aten::view", 10, 20, 5, 0) // makes no node; the next operator gets its number
                .range(MAIN, "attn", 100, 300)
                .op(MAIN, "aten::matmul", 110, 200, 5, 0)
                .op(MAIN, "aten::mm", 120, 190, 5, 0)
                .range(MAIN, "backward", 1000, 2000)
                .op(ENGINE, "autograd::engine::evaluate_function: MmBackward0", 1100, 1300, 5, 1)
                .op(ENGINE, "MmBackward0", 1110, 1290, 5, 1)
                .launch(ENGINE, 1120, 1130, 1)
                .op(ENGINE, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 1400, 1500)
                .launch(ENGINE, 1410, 1420, 2)
                .kernel(7, "gemm", 1500, 1700, 1)
                .kernel(7, "add", 1700, 1800, 2)
                .flow(1, MAIN, 120, ENGINE, 1110)
                .read();
        assertSame(host(trace, "aten::mm"), host(trace, "MmBackward0").forward());
        assertEquals(List.of("backward"), device(trace, "gemm").range());
        assertEquals(List.of("forward", "attn"), device(trace, "gemm").forwardRange());
        assertEquals(List.of("backward"), device(trace, "add").range());
        assertEquals(List.of(), device(trace, "add").forwardRange());
        assertNull(
                host(trace, "autograd::engine::evaluate_function: MmBackward0").parent());
    }

    @Test
    void theFirstNodesOfAnEngineThreadBelongToTheSameThreadAsItsLaterOnes() {
        Trace trace = new TraceText()
                .range(MAIN, "forward", 0, 400)
                .op(MAIN, "aten::mm", 120, 190, 5, 0)
                .range(MAIN, "backward", 1000, 2000)
                .range(MAIN, "inside", 1000, 1050) // ends before the engine starts
                .op(ENGINE, "autograd::engine::evaluate_function: Unknown", 1060, 1090)
                .op(ENGINE, "autograd::engine::evaluate_function: MmBackward0", 1100, 1300, 5, 1)
                .op(ENGINE, "autograd::engine::evaluate_function: Late", 1990, 2010)
                .read();
        String engine = "autograd::engine::evaluate_function: ";
        assertEquals(List.of("backward"), host(trace, engine + "Unknown").range());
        assertEquals(List.of("backward"), host(trace, engine + "MmBackward0").range());
        assertEquals(List.of(), host(trace, engine + "Late").range(), "no range lasts until its end");
    }

    /** Like a thread that communicates gradients while another one runs the backward pass. */
    @Test
    void eventsOfThreadsWithoutStepsBelongToTheStepInWhichTheyStart() throws IOException {
        String communicating = "\"pid\": 1, \"tid\": 30";
        Trace trace = new TraceText()
                .range(MAIN, "ProfilerStep#0", 0, 1000)
                .range(MAIN, "ProfilerStep#1", 1000, 2000)
                .op(communicating, "record_param_comms", 100, 200)
                .launch(communicating, 110, 120, 1)
                .op(communicating, "record_param_comms", 990, 1100) // ends in the next step
                .launch(communicating, 1050, 1060, 2)
                .op(communicating, "record_param_comms", 1200, 1300)
                .launch(communicating, 1210, 1220, 3)
                .op(communicating, "record_param_comms", 2100, 2200) // after all steps
                .launch(communicating, 2110, 2120, 4)
                .kernel(19, "first", 130, 150, 1)
                .kernel(19, "second", 1100, 1150, 2)
                .kernel(19, "third", 1230, 1250, 3)
                .kernel(19, "fourth", 2130, 2150, 4)
                .read();
        assertEquals(List.of("first", "second"), names(trace.step(0)));
        assertEquals(List.of("third"), names(trace.step(1)));
        assertEquals(-1, device(trace, "fourth").step());
        Path file = folder.resolve("kept.json.gz");
        trace.step(1).write(file);
        assertEquals(List.of("third"), names(Trace.read(file).step(1)));
    }

    @Test
    void withoutFlowEventsASequenceNumberOfTwoThreadsIsUnresolved() {
        var one = new TraceText()
                .op(MAIN, "aten::mul", 0, 10, 5, 0)
                .op(MAIN, "aten::add", 20, 30, 5, 0)
                .op(MAIN, "Later", 90, 95, 5, 0)
                .op(ENGINE, "AddBackward0", 50, 60, 5, 1);
        assertEquals("aten::add", host(one.read(), "AddBackward0").forward().name());
        Trace two = one.op("\"pid\": 1, \"tid\": 30", "aten::sub", 22, 33, 5, 0).read();
        assertNull(host(two, "AddBackward0").forward());
    }

    @Test
    void timesAreExactToTheNanosecond() {
        Trace trace = new TraceText()
                .raw(
                        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":4329628952583.725,\"dur\":56.82}")
                .raw(
                        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":4329628952641,\"dur\":0.001}")
                .raw(
                        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"pid\":1,\"tid\":1,\"ts\":\"5e12\",\"dur\":0.12300000001}")
                .read();
        assertEquals(4329628952583725L, host(trace, "a").start());
        assertEquals(56820, host(trace, "a").duration());
        assertEquals(4329628952640545L, host(trace, "a").end());
        assertEquals(4329628952641000L, host(trace, "b").start());
        assertEquals(1, host(trace, "b").duration());
        assertEquals(5_000_000_000_000_000L, host(trace, "c").start());
        assertEquals(123, host(trace, "c").duration());
    }

    @Test
    void olderNamesAndABareArrayAreRead() throws IOException {
        String events = new TraceText()
                .event("Operator", MAIN, "aten::mm", 0, 100, "")
                .event("Runtime", MAIN, "cudaLaunchKernel", 10, 20, "\"correlation\": 4")
                .event("Kernel", "\"pid\": 0, \"tid\": \"stream 7\"", "gemm", 50, 90, "\"correlation\": 4")
                .event("Memset", "\"pid\": 0, \"tid\": \"stream 7\"", "Memset (Device)", 90, 91, "\"bytes\": 16")
                .toString();
        Path file = folder.resolve("old.json");
        Files.writeString(file, events.substring(events.indexOf('['), events.lastIndexOf(']') + 1));
        Trace trace = Trace.read(file);
        assertEquals("aten::mm", device(trace, "gemm").operator().name());
        assertEquals(new DeviceStream(0, 7), device(trace, "gemm").stream());
        assertEquals(16, device(trace, "Memset (Device)").bytes());
    }

    /** The expected sums are computed from the JSON, independently of this package. */
    @Test
    void aTraceFromPythonIsReadCompletely() throws IOException {
        Trace trace = Trace.read(python());
        long kernels = 0;
        BigDecimal micros = BigDecimal.ZERO;
        long sameOperator = 0;
        try (Reader text =
                new InputStreamReader(new GZIPInputStream(Files.newInputStream(python())), StandardCharsets.UTF_8)) {
            for (JsonElement element :
                    JsonParser.parseReader(text).getAsJsonObject().getAsJsonArray("traceEvents")) {
                JsonObject event = element.getAsJsonObject();
                String category = event.has("cat") ? event.get("cat").getAsString() : "";
                if (List.of("kernel", "gpu_memcpy", "gpu_memset").contains(category)) {
                    kernels++;
                    micros = micros.add(event.get("dur").getAsBigDecimal());
                    long external =
                            event.getAsJsonObject("args").get("External id").getAsLong();
                    long correlation =
                            event.getAsJsonObject("args").get("correlation").getAsLong();
                    sameOperator += trace.work().stream()
                            .filter(e -> e.args().correlation() == correlation)
                            .filter(e -> e.operator().args().external() == external)
                            .count();
                }
            }
        }
        assertEquals(50, kernels);
        assertEquals(kernels, trace.work().size());
        assertEquals(micros.movePointRight(3).longValueExact(), deviceTime(trace));
        assertEquals(kernels, sameOperator, "both paths from a kernel to its operator lead to the same one");
        assertTrue(trace.work().stream()
                .allMatch(e -> List.of(List.of("forward"), List.of("backward")).contains(e.range())));
        assertTrue(trace.memory().size() > 0);
        assertEquals(
                16,
                trace.host().stream()
                        .filter(e -> e.forward() != null && !e.isEngine())
                        .count());
    }

    @Test
    void aTraceSurvivesWritingAndReading() throws IOException {
        Trace trace = Trace.read(python());
        for (String name : List.of("again.json", "again.json.gz")) {
            Path file = folder.resolve(name);
            trace.write(file);
            Trace again = Trace.read(file);
            assertEquals(described(trace), described(again));
            assertEquals(trace.memory(), again.memory());
            assertEquals(trace.threadNames(), again.threadNames());
            assertEquals(trace.baseTime(), again.baseTime());
            assertEquals(OpTable.of(trace).rows(), OpTable.of(again).rows());
            assertEquals(KernelTable.of(trace).rows(), KernelTable.of(again).rows());
            assertEquals(forwardRanges(trace), forwardRanges(again));
        }
        assertTrue(Files.size(folder.resolve("again.json.gz")) < Files.size(folder.resolve("again.json")) / 4);
    }

    @Test
    void writtenTracesHaveTheFieldsThatViewersNeed() throws IOException {
        Path file = folder.resolve("viewer.json");
        Trace.read(python()).write(file);
        int arrows = 0;
        int gpus = 0;
        for (JsonElement element :
                JsonParser.parseString(Files.readString(file)).getAsJsonObject().getAsJsonArray("traceEvents")) {
            JsonObject event = element.getAsJsonObject();
            for (String member : List.of("ph", "name", "pid", "tid")) {
                assertTrue(event.has(member), event::toString);
            }
            switch (event.get("ph").getAsString()) {
                case "X" -> assertTrue(event.has("ts") && event.has("dur") && event.has("cat"), event::toString);
                case "s", "f" -> {
                    assertTrue(event.has("id") && event.has("ts"), event::toString);
                    arrows++;
                }
                case "M" -> gpus += event.get("name").getAsString().equals("process_name") ? 1 : 0;
                default -> assertEquals("[memory]", event.get("name").getAsString());
            }
        }
        assertTrue(arrows >= 2 * 50, "from each launch to its kernel: " + arrows);
        assertEquals(1, gpus);
    }

    private static List<String> described(Trace trace) {
        return Stream.concat(
                        trace.host().stream()
                                .map(e -> e + " " + e.self() + e.range() + e.shapes() + Objects.toString(e.parent())
                                        + e.forward()),
                        trace.device().stream().map(e -> e + " " + e.bytes() + e.launch() + e.kernelKind()))
                .toList();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "''|it is truncated",
                "hello|it is not JSON at line 1 column 1",
                "{}|it has no traceEvents",
                "3|it has no traceEvents",
                "{\"traceEvents\": 3}|traceEvents is not an array",
                "{\"traceEvents\": [3]}|event 0 is not an object",
                "{\"traceEvents\": []} {}|it is not JSON at line 1 column 2",
                "{\"traceEvents\": [{\"ph\": \"X\"|it is truncated",
                "[{\"ph\":\"M\"},{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"dur\":1}]|event 1 (a) has no ts",
                "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1}]|event 0 (a) has no dur",
                "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":-3}]|event 0 (a) has the negative dur -3",
                "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":\"soon\",\"dur\":1}]|event 0 (a) has the ts 'soon', which is not a time",
                "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1,\"dur\":1}]|event 0 of category cpu_op has no name",
                "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"args\":{\"device\":99999999999}}]|event 0 (k) has the device 99999999999, which is not a GPU index",
                "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"args\":{\"correlation\":\"x\"}}]|event 0 has the correlation 'x', which is not an integer",
            })
    void theErrorNamesABadFileAndItsFlaw(String text, String complaint) throws IOException {
        Path file = folder.resolve("bad.json");
        Files.writeString(file, text);
        var e = assertThrows(IllegalArgumentException.class, () -> Trace.read(file));
        assertTrue(e.getMessage().startsWith(file + " is not a trace: "), e.getMessage());
        assertTrue(e.getMessage().contains(complaint), e.getMessage());
    }

    @Test
    void aTruncatedFileIsReportedAsTruncated() throws IOException {
        String whole =
                "{\"other\": [true, null, -1.5e3, {\"\\u00e9\": \"é\"}], \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\","
                        + " \"name\": \"a\", \"pid\": 1, \"tid\": 2, \"ts\": 1.5, \"dur\": 2}], \"baseTimeNanoseconds\": 12}";
        byte[] bytes = whole.getBytes(StandardCharsets.UTF_8);
        Path file = folder.resolve("cut.json");
        for (int length = 0; length < bytes.length; length++) {
            Files.write(file, Arrays.copyOf(bytes, length));
            var e = assertThrows(IllegalArgumentException.class, () -> Trace.read(file));
            assertEquals(file + " is not a trace: it is truncated", e.getMessage(), "after " + length + " bytes");
        }
        Files.write(file, bytes);
        assertEquals(2000, hostTime(Trace.read(file)));
    }

    @Test
    @Timeout(value = 20, threadMode = Timeout.ThreadMode.SEPARATE_THREAD) // a pipe without a writer blocks
    void aPipeIsReadOnce() throws Exception {
        var events = new TraceText().op(MAIN, "a", 0, 2000).toString();
        Path pipe = folder.resolve("pipe.json");
        assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
        write(pipe, events);
        assertEquals(
                hostTime(Trace.read(Files.writeString(folder.resolve("file.json"), events))),
                hostTime(Trace.read(pipe)));
        write(pipe, "{\"a\": nonsense}");
        var e = assertThrows(IllegalArgumentException.class, () -> Trace.read(pipe));
        assertTrue(e.getMessage().startsWith(pipe + " is not a trace: it is not JSON"), e.getMessage());
    }

    private static void write(Path pipe, String text) {
        new Thread(() -> assertDoesNotThrow(() -> Files.writeString(pipe, text))).start();
    }

    @Test
    void aStringThatWouldFillTheMemoryIsRefused() throws IOException {
        Path file = folder.resolve("long.json.gz");
        try (var out = new GZIPOutputStream(Files.newOutputStream(file))) {
            out.write("[{\"name\":\"".getBytes(StandardCharsets.UTF_8));
            byte[] part = "x\\\"".repeat(1 << 20).getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < 8; i++) {
                out.write(part);
            }
            out.write("\"}]".getBytes(StandardCharsets.UTF_8));
        }
        var e = assertThrows(IllegalArgumentException.class, () -> Trace.read(file));
        assertEquals(file + " is not a trace: it has a string of more than 16777216 characters", e.getMessage());
    }

    @Test
    void theErrorNamesABadArchive() throws IOException {
        Path plain = folder.resolve("plain.json.gz");
        Files.writeString(plain, "{\"traceEvents\": []}");
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Trace.read(plain))
                .getMessage()
                .contains("plain.json.gz is not a trace: it is not gzip-compressed"));
        Path cut = folder.resolve("cut.json.gz");
        try (var out = new GZIPOutputStream(Files.newOutputStream(cut))) {
            out.write(new TraceText().op(MAIN, "a", 0, 1).toString().getBytes(StandardCharsets.UTF_8));
        }
        byte[] whole = Files.readAllBytes(cut);
        Files.write(cut, Arrays.copyOf(whole, whole.length - 20));
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Trace.read(cut))
                .getMessage()
                .contains("truncated"));
        assertThrows(NoSuchFileException.class, () -> Trace.read(folder.resolve("none.json")));
    }

    /** Traces from Python with random damage, compressed and not; the error names the file. */
    @Test
    void anyDamageIsReportedOrHarmless() throws IOException {
        byte[] packed;
        try (var resource = TraceTest.class.getResourceAsStream("python-ddp-rank0.json.gz")) {
            packed = resource.readAllBytes();
        }
        byte[] plain = new GZIPInputStream(new ByteArrayInputStream(packed)).readAllBytes();
        var random = new Random(336);
        int reported = 0;
        int tried = AttackCount.times(100);
        for (int i = 0; i < tried; i++) {
            boolean compressed = i % 4 > 0;
            byte[] whole = compressed ? packed : plain;
            byte[] bytes = RandomDamage.of(whole, random);
            Path file = Files.write(folder.resolve(compressed ? "damaged.json.gz" : "damaged.json"), bytes);
            try {
                Trace.read(file);
            } catch (IllegalArgumentException e) {
                assertTrue(e.getMessage().startsWith(file + " is not a trace: "), e.getMessage());
                reported++;
            }
        }
        assertTrue(reported > tried / 3 && reported < tried, "" + reported);
        AttackCount.inputs(tried, "damaged traces");
    }

    @Test
    void aTraceWithoutEventsIsEmpty() {
        Trace trace = new TraceText().read();
        assertEquals(0, hostTime(trace));
        assertEquals(0, deviceTime(trace));
        assertEquals(List.of(), OpTable.of(trace).rows());
        assertEquals(List.of(), FoldedStacks.of(trace, FoldedStacks.Time.CPU).stacks());
    }
}
