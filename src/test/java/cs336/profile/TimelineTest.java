package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import java.awt.Color;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TimelineTest {
    private final List<String> events = new ArrayList<>();

    @TempDir
    Path folder;

    /** Adds an event; times are in milliseconds. */
    private void host(String category, String name, int start, int end, int correlation) {
        events.add("""
                {"ph": "X", "cat": "%s", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": %d, "args": {"correlation": %d}}""".formatted(category, name, start * 1000, (end - start) * 1000, correlation));
    }

    /** Adds a name of a host thread and, from 3 to 9 ms, a range of it. */
    private void thread(int thread, String name) {
        events.add("""
                {"ph": "M", "name": "thread_name", "pid": 1, "tid": %d, "args": {"name": "%s"}}""".formatted(thread, name));
        events.add("""
                {"ph": "X", "cat": "user_annotation", "name": "reduce", "pid": 1, "tid": %d, "ts": 3000, "dur": 6000}""".formatted(thread));
    }

    private void kernel(int stream, String name, int start, int end, int correlation) {
        events.add("""
                {"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d, "ts": %d, "dur": %d, \
                "args": {"device": 0, "stream": %d, "correlation": %d}}""".formatted(name, stream, start * 1000, (end - start) * 1000, stream, correlation));
    }

    @BeforeEach
    void twoStepsWithAKernelThatOutlastsItsRangeAndAnAllReduce() {
        host("user_annotation", "ProfilerStep#0", 0, 10, 0);
        host("user_annotation", "forward", 1, 9, 0);
        host("user_annotation", "ProfilerStep#1", 10, 20, 0);
        host("user_annotation", "forward", 11, 14, 0);
        host("user_annotation", "layers.0", 12, 13, 0);
        host("cuda_runtime", "cudaLaunchKernel", 12, 13, 1);
        kernel(7, "sgemm", 13, 17, 1);
        host("user_annotation", "backward", 14, 20, 0);
        host("cuda_runtime", "cudaLaunchKernel", 15, 16, 2);
        kernel(20, "ncclDevKernel_AllReduce", 16, 22, 2);
    }

    private Timeline timeline() throws IOException {
        return Timeline.of(trace(0));
    }

    private Trace trace(long baseTime) throws IOException {
        Path file = folder.resolve("trace.json");
        Files.writeString(
                file,
                "{\"baseTimeNanoseconds\": " + baseTime + ", \"traceEvents\": [" + String.join(",\n", events) + "]}");
        return Trace.read(file);
    }

    private static Map<String, Trace> ranks(Trace... traces) {
        var ranks = new LinkedHashMap<String, Trace>();
        for (Trace trace : traces) {
            ranks.put("rank " + ranks.size(), trace);
        }
        return ranks;
    }

    private static List<String> names(Timeline.Lane lane) {
        return lane.bars().stream().map(Timeline.Bar::name).toList();
    }

    /** A trace of PyTorch without ranges: the last step is that of the last ProfilerStep. */
    @Test
    void theLastStepMayHaveNoRanges() throws IOException {
        events.clear();
        host("user_annotation", "ProfilerStep#0", 0, 10, 0);
        host("user_annotation", "warmup", 1, 9, 0);
        host("cuda_runtime", "cudaLaunchKernel", 2, 3, 1);
        kernel(7, "first", 3, 7, 1);
        host("user_annotation", "ProfilerStep#1", 10, 20, 0);
        host("cuda_runtime", "cudaLaunchKernel", 12, 13, 2);
        kernel(7, "second", 13, 17, 2);
        List<String> bars = timeline().lastStep().lanes().stream()
                .flatMap(lane -> names(lane).stream())
                .toList();
        assertTrue(bars.contains("second") && !bars.contains("first"), bars.toString());
    }

    @Test
    void aStreamWithCopiesOnlyIsNamedAfterThem() throws IOException {
        kernel(21, "Memcpy DtoH (Device -> Pinned)", 13, 17, 3);
        assertTrue(
                timeline().lanes().stream().anyMatch(lane -> lane.label().equals("stream 21: copy")),
                timeline().lanes().toString());
    }

    @Test
    void rangesHaveARowPerDepthAndStreamsRowsForComputationAndCommunication() throws IOException {
        List<Timeline.Lane> lanes = timeline().lanes();
        assertEquals(
                List.of("ranges", "", "stream 7: compute", "stream 20: communication"),
                lanes.stream().map(Timeline.Lane::label).toList());
        assertEquals(List.of("forward", "forward", "backward"), names(lanes.get(0)));
        assertEquals(List.of("layers.0"), names(lanes.get(1)));
        assertEquals("matmul", lanes.get(2).bars().get(0).kind());
        assertEquals("communication", lanes.get(3).bars().get(0).kind());
    }

    @Test
    void severalThreadsAreNamedAsByTheProgram() throws IOException {
        thread(1, "thread 4711 (java)");
        thread(2, "thread 4712 (gradients)");
        assertEquals(
                List.of("ranges of thread java", "ranges of thread gradients"),
                timeline().levels(1).lanes().stream()
                        .map(Timeline.Lane::label)
                        .limit(2)
                        .toList());
        thread(3, "thread 4713 (gradients)");
        assertEquals(
                List.of(
                        "ranges of thread java",
                        "ranges of thread 4712 (gradients)",
                        "ranges of thread 4713 (gradients)"),
                timeline().levels(1).lanes().stream()
                        .map(Timeline.Lane::label)
                        .limit(3)
                        .toList());
    }

    @Test
    void theLastStepExtendsFromItsFirstRangeToItsLastKernel() throws IOException {
        List<Timeline.Lane> lanes = timeline().lastStep().lanes();
        assertEquals(List.of("forward", "backward"), names(lanes.get(0)));
        assertEquals(0, lanes.get(0).bars().get(0).start());
        assertEquals(11, lanes.get(3).bars().get(0).end(), 1e-9, "from 11 ms to 22 ms");
    }

    @Test
    void aRangeLastsUntilItsKernelsAreDone() throws IOException {
        List<Timeline.Lane> lanes = timeline().during("layers.0", 0).lanes();
        Timeline.Bar kernel = lanes.get(2).bars().get(0);
        assertEquals(List.of(1.0, 5.0), List.of(kernel.start(), kernel.end()), "from 12 ms to 17 ms");
        assertEquals(5, lanes.get(3).bars().get(0).end(), 1e-9, "other kernels are cut off there");
        assertEquals(lanes, timeline().during("layers.0", -1).lanes(), "the only occurrence is the first and the last");
        assertThrows(IllegalArgumentException.class, () -> timeline().during("layers.0", 1));
        assertThrows(IllegalArgumentException.class, () -> timeline().during("layers.9", 0));
        assertThrows(IllegalArgumentException.class, () -> timeline().between(5, 5));
    }

    @Test
    void ranksOfOneHostAreAlignedByItsClock() throws IOException {
        Trace first = trace(1_000_000_000);
        Trace later = trace(1_002_000_000); // the same, 2 ms later
        List<Timeline.Lane> lanes =
                Timeline.ofRanks(ranks(first, later)).lastStep().levels(1).lanes();
        assertEquals(
                List.of(
                        "rank 0, ranges",
                        "rank 0, stream 7: compute",
                        "rank 0, stream 20: communication",
                        "rank 1, ranges",
                        "rank 1, stream 7: compute",
                        "rank 1, stream 20: communication"),
                lanes.stream().map(Timeline.Lane::label).toList());
        assertEquals(5, lanes.get(2).bars().get(0).start(), 1e-9, "16 ms, in a figure that starts at 11 ms");
        assertEquals(7, lanes.get(5).bars().get(0).start(), 1e-9, "2 ms later");
        assertEquals(13, lanes.get(5).bars().get(0).end(), 1e-9, "not cut off");
    }

    @Test
    void ranksWithoutACommonClockStartAtTheLeftEdge() throws IOException {
        Timeline timeline = Timeline.ofRanks(ranks(trace(0), trace(1_000_000_000_000L)));
        List<Timeline.Lane> lanes = timeline.levels(1).lanes();
        assertEquals(lanes.get(2).bars(), lanes.get(5).bars());
        assertEquals(16, lanes.get(5).bars().get(0).start(), 1e-9);
        assertThrows(IllegalArgumentException.class, () -> Timeline.ofRanks(Map.of()));
    }

    @Test
    void threadsHaveRowsForComputationAndCommunicationIfGlooCommunicates() throws IOException {
        events.clear();
        host("user_annotation", "backward", 0, 10, 0);
        host("cpu_op", "aten::mm", 1, 4, 0);
        host("cpu_op", "aten::t", 2, 3, 0);
        events.add("""
                {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 3000, "dur": 5000}""");
        assertEquals(
                List.of(
                        new Timeline.Lane("ranges", List.of(new Timeline.Bar("backward", null, 0, 0, 10))),
                        new Timeline.Lane(
                                "threads: computation",
                                List.of(new Timeline.Bar("computation", "computation", 0, 1, 4))),
                        new Timeline.Lane(
                                "Gloo: communication",
                                List.of(new Timeline.Bar("gloo:all_reduce", "communication", 0, 3, 8)))),
                timeline().lanes());
    }

    @Test
    void theFigureShowsEveryBarAndALegendOfTheKinds() throws IOException {
        Figure figure = timeline().lastStep().figure("timeline", "Two streams");
        String svg = figure.svg();
        assertEquals(
                svg, timeline().lastStep().figure("timeline", "Two streams").svg());
        for (int kind = 0; kind < 2; kind++) {
            assertEquals(2, drawn(svg, ChartStyle.color(kind)), "swatch and bar of kind " + kind);
        }
        assertTrue(figure.png(1).length > 1000);
    }

    @Test
    void kindsKeepTheirColoursInTracesWithOtherKinds() throws IOException {
        kernel(7, "void at::native::vectorized_elementwise_kernel<4>", 17, 18, 3);
        Color elementwise = ChartStyle.color(5);
        assertEquals(
                2,
                drawn(timeline().lastStep().figure("timeline", "Without ours").svg(), elementwise));
        kernel(7, "softmax_warp_forward<float>", 18, 19, 4);
        kernel(7, "rmsnorm_forward", 19, 20, 5);
        assertEquals(
                2, drawn(timeline().lastStep().figure("timeline", "With ours").svg(), elementwise));
    }

    /** Returns how often a figure has this colour: once in the legend, and in each bar. */
    private static long drawn(String svg, Color color) {
        String fill = "fill:rgb(%d,%d,%d)".formatted(color.getRed(), color.getGreen(), color.getBlue());
        return Stream.of(svg.split(Pattern.quote(fill), -1)).count() - 1;
    }
}
