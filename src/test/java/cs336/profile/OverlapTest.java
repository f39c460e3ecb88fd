package cs336.profile;

import static cs336.profile.TraceText.MAIN;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tech.tablesaw.api.Table;

class OverlapTest {
    private static final String GLOO = "\"pid\": 1, \"tid\": 30";
    private static final String NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

    @TempDir
    private Path folder;

    private static Activity only(TraceText text) {
        List<Activity> activities = Activity.of(text.read());
        assertEquals(1, activities.size(), activities.toString());
        return activities.get(0);
    }

    @Test
    void communicationThatStartsAsTheLastKernelEndsDoesNotOverlap() {
        Activity device = only(new TraceText()
                .device("kernel", 7, "gemm", 1000, 2001)
                .device("kernel", 20, NCCL, 2001, 3000)
                .device("kernel", 7, "adam", 3000, 3500));
        assertEquals(new Overlap(999, 0), Overlap.of(device));
        assertEquals(0.0, Overlap.of(device).ratio());
        assertEquals(new Breakdown(1501, 999, 0, 0), Breakdown.of(device));
    }

    /** Rounded to whole microseconds as in HTA, the ratio would be 1/2: 4 to 6 against 2 to 3 and 5 to 6. */
    @Test
    void timesBelowAMicrosecondCount() {
        Activity device = only(new TraceText()
                .device("kernel", 7, "gemm", 1600, 3400)
                .device("kernel", 20, NCCL, 3100, 6600)
                .device("kernel", 7, "gemm", 4900, 6201));
        assertEquals(new Overlap(3500, 300 + 1301), Overlap.of(device));
        assertEquals(1601.0 / 3500, Overlap.of(device).ratio());
        assertEquals(1899, Breakdown.of(device).communication());
    }

    @Test
    void concurrentKernelsOnSeveralStreamsCountOnce() {
        Activity device = only(new TraceText()
                .device("kernel", 7, "gemm", 0, 100)
                .device("kernel", 8, "gelu", 50, 150)
                .device("kernel", 20, NCCL, 40, 200)
                .device("kernel", 24, NCCL, 190, 240));
        assertEquals(new Overlap(200, 110), Overlap.of(device));
        assertEquals(new Breakdown(150, 90, 0, 0), Breakdown.of(device));
    }

    @Test
    void theBreakdownCountsOverlappingActivitiesOnceAndSumsToTheSpan() {
        Activity device = only(new TraceText()
                .launch(MAIN, 0, 10, 1) // the CPU works, the GPU is idle
                .device("gpu_memcpy", 9, "Memcpy HtoD (Pinned -> Device)", 100, 400)
                .device("kernel", 7, "gemm", 200, 300)
                .device("kernel", 20, NCCL, 250, 350)
                .device("gpu_memset", 7, "Memset (Device)", 500, 501)
                .device("gpu_user_annotation", 20, "nccl:all_reduce", 100, 900));
        Breakdown breakdown = Breakdown.of(device);
        assertEquals(new Breakdown(100, 50, 100 + 50 + 1, 501 - 301), breakdown);
        assertEquals(501, breakdown.span());
    }

    @Test
    void withoutCommunicationThereIsNoRatio() {
        Overlap none = Overlap.of(only(new TraceText().device("kernel", 7, "gemm", 0, 100)));
        assertEquals(new Overlap(0, 0), none);
        assertTrue(Double.isNaN(none.ratio()));
        assertEquals(List.of(), Activity.of(new TraceText().read()));
    }

    @Test
    void gpusAreSeparate() {
        var text = new TraceText().device("kernel", 7, "gemm", 0, 100);
        text.event("kernel", "\"pid\": 1, \"tid\": 7", NCCL, 50, 90, "\"device\": 1, \"stream\": 7");
        List<Activity> activities = Activity.of(text.read());
        assertEquals(
                List.of("cuda:0", "cuda:1"),
                activities.stream().map(Activity::device).toList());
        assertEquals(new Overlap(0, 0), Overlap.of(activities.get(0)));
        assertEquals(new Overlap(40, 0), Overlap.of(activities.get(1)));
        assertEquals(new Breakdown(0, 40, 0, 60), Breakdown.of(activities.get(1)));
    }

    /** A hook that waits inside the engine's frame does not compute; the node inside the same frame does. */
    @Test
    void onTheCpuOperatorsComputeAndGlooThreadsCommunicate() {
        var text = new TraceText()
                .range(MAIN, "backward", 0, 1000)
                .op(MAIN, "autograd::engine::evaluate_function: AddmmBackward0", 100, 700)
                .op(MAIN, "AddmmBackward0", 110, 300)
                .op(MAIN, "aten::mm", 120, 290)
                .op(MAIN, "c10d::allreduce_", 300, 310)
                .range(GLOO, "gloo:all_reduce", 250, 650);
        assertEquals(new Overlap(400, 50), Overlap.of(only(text)));
        assertEquals(new Breakdown(190, 350, 0, 460), Breakdown.of(only(text)));
        assertEquals("cpu", only(text).device());
    }

    @Test
    void glooThreadsCommunicateForTheGpusOfTheirProcess() {
        Activity device = only(new TraceText()
                .range(GLOO, "gloo:all_reduce", 0, 100)
                .device("gpu_memcpy", 9, "Memcpy DtoH (Device -> Pinned)", 10, 20)
                .device("kernel", 7, "gemm", 50, 120));
        assertEquals(new Overlap(100, 50), Overlap.of(device));
        assertEquals(new Breakdown(70, 50, 0, 0), Breakdown.of(device));
    }

    @Test
    void aGlooCollectiveBelongsToTheStepInWhichItStarted() throws IOException {
        Trace trace = new TraceText()
                .range(MAIN, "ProfilerStep#4", 0, 100)
                .range(MAIN, "ProfilerStep#5", 100, 200)
                .op(MAIN, "aten::mm", 110, 120)
                .range(GLOO, "gloo:all_reduce", 90, 130)
                .range(GLOO, "gloo:all_reduce", 180, 230)
                .read();
        assertEquals(
                List.of(new Overlap(40, 0)),
                Activity.of(trace.step(4)).stream().map(Overlap::of).toList());
        Activity last = Activity.of(trace.step(5)).get(0);
        assertEquals(new Overlap(50, 0), Overlap.of(last));
        assertEquals(List.of(100L, 230L), List.of(last.start(), last.end()));
        assertEquals(List.of(), trace.ranges(), "a collective is not a range of the program");
        Path file = folder.resolve("again.json.gz");
        trace.write(file);
        assertEquals(Activity.of(trace), Activity.of(Trace.read(file)), "after writing and reading");
    }

    @Test
    void aTableHasARowForEachStepAndDeviceOfEachRank() {
        var text = new TraceText();
        for (int step = 0; step < 3; step++) {
            int at = 1000 * step;
            text.range(MAIN, "ProfilerStep#" + step, at, at + 1000)
                    .launch(MAIN, at + 1, at + 2, 2 * step + 1)
                    .launch(MAIN, at + 3, at + 4, 2 * step + 2)
                    .kernel(7, "gemm", at + 100, at + 500, 2 * step + 1)
                    .kernel(20, NCCL, at + 400, at + 1200, 2 * step + 2);
        }
        Map<String, Trace> ranks = new LinkedHashMap<>();
        ranks.put("rank 0", text.read());
        ranks.put("rank 1", new TraceText().device("kernel", 7, "gemm", 0, 100).read());
        OverlapTable all = OverlapTable.of(ranks);
        assertEquals(4, all.rows().size());
        OverlapTable last = all.lastSteps();
        assertEquals(2, last.rows().size());
        assertEquals(OptionalInt.of(2), last.rows().get(0).step());
        assertEquals(new Overlap(800, 100), last.rows().get(0).overlap());
        assertEquals(new Breakdown(400, 700, 0, 100), last.rows().get(0).breakdown());
        Table table = last.table();
        assertEquals(0.125, table.doubleColumn("overlap ratio").get(0));
        assertTrue(table.doubleColumn("overlap ratio").isMissing(1));
        assertTrue(table.intColumn("step").isMissing(1));
        assertEquals(100.0 * 100 / 1200, table.doubleColumn("idle (%)").get(0), 1e-12);
    }

    /** Returns the start of a trace: step 0, which ends at 10 on the host and at 100 on the GPU. */
    private static TraceText firstStep() {
        return new TraceText()
                .range(MAIN, "ProfilerStep#0", 0, 10)
                .launch(MAIN, 1, 2, 1)
                .kernel(7, "gemm", 2, 100, 1);
    }

    @Test
    void aStepWithoutGpuWorkHasNoRow() throws IOException {
        Trace trace = firstStep()
                .range(MAIN, "ProfilerStep#1", 200, 300)
                .op(MAIN, "aten::ones", 210, 220)
                .read();
        List<OverlapTable.OverlapRow> rows =
                OverlapTable.of(Map.of("rank 0", trace)).rows();
        assertEquals(
                List.of(OptionalInt.of(0)),
                rows.stream().map(OverlapTable.OverlapRow::step).toList());
    }

    /** The format of PyTorch 2 for Python: kernels with their collective, GPU annotations, and the ranks. */
    @Test
    void tracesFromPythonAreRead() throws Exception {
        Path file = folder.resolve("rank0.json");
        Files.writeString(file, """
                {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "displayTimeUnit": "ms",
                 "baseTimeNanoseconds": 1790857026000000000, "traceEvents": [
                 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                  "pid": 0, "tid": 20, "ts": 4338279840605.812, "dur": 100.5,
                  "args": {"External id": 7, "device": 0, "context": 1, "stream": 20, "correlation": 11, "Collective name": "allreduce",
                           "In msg nelems": 1024, "dtype": "Float", "Process Group Ranks": "[0, 1]", "grid": [24, 1, 1]}},
                 {"ph": "X", "cat": "gpu_user_annotation", "name": "nccl:all_reduce", "pid": 0, "tid": 20,
                  "ts": 4338279840605.812, "dur": 100.5, "args": {"External id": 7}},
                 {"ph": "X", "cat": "kernel", "name": "void gemmSN_NN_kernel<float>(cublasGemmSmallNParams)",
                  "pid": 0, "tid": 7, "ts": 4338279840700.062, "dur": 50.001,
                  "args": {"device": 0, "stream": 7, "correlation": 12}},
                 {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "pid": 9, "tid": 9,
                  "ts": 4338279840500.000, "dur": 7.0, "args": {}}
                 ]}
                """);
        Activity device = Activity.of(Trace.read(file)).get(0);
        assertEquals(new Overlap(100_500, 6_250), Overlap.of(device));
        assertEquals(new Breakdown(50_001, 94_250, 0, 105_812), Breakdown.of(device));
    }

    /** The host is a step ahead: the gather of step 1 overlaps with the kernel of step 0. */
    @Test
    void kernelsOfTheStepBeforeAreComputation() throws IOException {
        Trace trace = firstStep()
                .range(MAIN, "ProfilerStep#1", 10, 20)
                .launch(MAIN, 11, 12, 2)
                .kernel(7, "gemm", 100, 200, 2)
                .launch(MAIN, 13, 14, 3)
                .kernel(20, "ncclDevKernel_AllGather", 20, 90, 3)
                .read();
        OverlapTable.OverlapRow last =
                OverlapTable.of(Map.of("rank 0", trace)).rows().get(1);
        assertEquals(new Overlap(70, 70), last.overlap());
        assertEquals(new Breakdown(190, 0, 0, 0), last.breakdown());
    }

    /** The expected sums are those that make_python_ddp_trace.py prints. Rank 1 waited for rank 0. */
    @Test
    void sumsOfPythonDdpTracesAgreeWithAnIndependentProgram() throws IOException {
        List<Overlap> expected = List.of(new Overlap(579_200, 283_264), new Overlap(4_636_288, 2_265_120));
        for (int rank = 0; rank < 2; rank++) {
            Path file = Path.of("src/test/resources/cs336/profile/python-ddp-rank" + rank + ".json.gz");
            List<Activity> activities = Activity.of(Trace.read(file));
            assertEquals(
                    List.of(expected.get(rank)),
                    activities.stream().map(Overlap::of).toList());
            Breakdown breakdown = Breakdown.of(activities.get(0));
            Overlap overlap = expected.get(rank);
            assertEquals(overlap.communication() - overlap.overlapped(), breakdown.communication());
            assertTrue(breakdown.idle() > 0 && breakdown.copies() >= 0, breakdown.toString());
        }
    }
}
