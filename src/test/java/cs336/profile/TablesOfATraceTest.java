package cs336.profile;

import static cs336.profile.TraceText.ENGINE;
import static cs336.profile.TraceText.MAIN;
import static cs336.profile.TraceText.deviceTime;
import static cs336.profile.TraceText.hostTime;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.profile.FoldedStacks.Time;
import cs336.profile.OpTable.OpRow;
import java.util.List;
import org.junit.jupiter.api.Test;

class TablesOfATraceTest {
    /**
     * A step with a GEMM, a softmax and a custom kernel forward, and a GEMM backward on an engine thread; two streams.
     */
    private static final Trace STEP = new TraceText()
            .range(MAIN, "ProfilerStep#0", 0, 3000)
            .range(MAIN, "forward", 100, 900)
            .op(MAIN, "aten::matmul", 100, 300)
            .op(MAIN, "aten::mm", 120, 280, 1, 0)
            .launch(MAIN, 130, 150, 1)
            .range(MAIN, "softmax", 400, 800)
            .op(MAIN, "aten::softmax", 410, 500, 2, 0)
            .launch(MAIN, 420, 430, 2)
            .op(MAIN, "aten::sum", 510, 700)
            .op(MAIN, "aten::sum", 520, 690)
            .launch(MAIN, 530, 540, 3)
            .launch(MAIN, 850, 860, 4) // a kernel of this project: not inside an operator
            .range(MAIN, "backward", 1000, 2000)
            .op(ENGINE, "autograd::engine::evaluate_function: MmBackward0", 1100, 1300, 1, 1)
            .op(ENGINE, "MmBackward0", 1110, 1290, 1, 1)
            .op(ENGINE, "aten::mm", 1120, 1280)
            .launch(ENGINE, 1130, 1140, 5)
            .flow(1, MAIN, 120, ENGINE, 1110)
            .kernel(7, "gemm", 1000, 2000, 1)
            .kernel(7, "softmax_warp_forward", 2000, 2100, 2)
            .kernel(7, "reduce_kernel", 2100, 2150, 3)
            .kernel(9, "flash_attention_forward", 1500, 2120, 4)
            .kernel(9, "gemm", 2200, 2600, 5)
            .device("gpu_memcpy", 9, "Memcpy HtoD (Pinned -> Device)", 2600, 2605, "\"bytes\": 64")
            .device("gpu_user_annotation", 7, "forward", 1000, 2150, "\"External id\": 1")
            .read();

    private static final KernelTable KERNELS = KernelTable.of(STEP);
    private static final OpTable OPS = OpTable.of(STEP);

    @Test
    void kernelTimesSumToTheTrace() {
        assertEquals(1000 + 100 + 50 + 620 + 400 + 5, KERNELS.total());
        assertEquals(deviceTime(STEP), KERNELS.total());
        assertEquals(1150 + 400 + 5, KERNELS.busy(), "concurrent kernels on two streams count once");
        assertEquals(
                KERNELS.total(),
                KERNELS.byKind().values().stream().mapToLong(KernelTable::total).sum());
        assertEquals(
                KERNELS.total(),
                KERNELS.rows().stream().mapToLong(KernelTable.KernelRow::total).sum());
    }

    @Test
    void aKernelHasOneRowWithItsLaunches() {
        KernelTable.KernelRow gemm = KERNELS.rows().get(0);
        assertEquals(new KernelTable.KernelRow("gemm", KernelKind.MATMUL, 2, 1400), gemm);
        assertEquals(700.0, gemm.mean());
        assertEquals("flash_attention_forward", KERNELS.rows().get(1).name());
    }

    private static KernelTable inside(String range) {
        return KERNELS.filter(kernel -> kernel.range().contains(range));
    }

    private static KernelTable gradientOf(String range) {
        return KERNELS.filter(kernel -> kernel.forwardRange().contains(range));
    }

    @Test
    void kernelsAreSelectedByRangeForwardRangeKindAndStep() {
        assertEquals(150, inside("softmax").total());
        assertEquals(1000 + 100 + 50 + 620, inside("forward").total());
        assertEquals(400, inside("backward").total());
        assertEquals(400, gradientOf("forward").total());
        assertEquals(0, gradientOf("softmax").total());
        assertEquals(1400, KERNELS.of(KernelKind.MATMUL).total());
        assertEquals(620, KERNELS.of(KernelKind.OURS).total());
        assertEquals(105, KERNELS.of(KernelKind.SOFTMAX, KernelKind.COPY).total());
        assertEquals(KERNELS.total(), KERNELS.step(0).total(), "the copy has no launch, but starts during the step");
        assertEquals(0, KERNELS.step(1).total());
        assertEquals(
                List.of(
                        List.of("forward"),
                        List.of("forward", "softmax"),
                        List.of("forward", "softmax"),
                        List.of("forward"),
                        List.of("backward"),
                        List.of()),
                KERNELS.launches().stream().map(DeviceEvent::range).toList());
    }

    @Test
    void operatorsHaveSelfAndTotalTimesOnCpuAndGpu() {
        assertEquals(new OpRow("aten::mm", HostEventKind.OP, 2, 320, 320, 1400, 1400, 0, 0), OPS.row("aten::mm"));
        assertEquals(new OpRow("aten::matmul", HostEventKind.OP, 1, 40, 200, 0, 1000, 0, 0), OPS.row("aten::matmul"));
        assertEquals(
                new OpRow("aten::sum", HostEventKind.OP, 2, 20 + 170, 190, 50, 50, 0, 0),
                OPS.row("aten::sum"),
                "a call nested in one of the same name counts, but its time does not");
        assertEquals(new OpRow("forward", HostEventKind.RANGE, 1, 100 + 100, 800, 620, 1770, 0, 0), OPS.row("forward"));
        assertEquals(
                new OpRow("backward", HostEventKind.RANGE, 1, 1000, 1000, 0, 400, 0, 0),
                OPS.row("backward"),
                "its thread waits; the kernels of the engine thread belong to it");
        assertEquals(2170, OPS.row("ProfilerStep#0").deviceTotal());
        assertEquals(95.0, OPS.row("aten::sum").cpuMean());
    }

    @Test
    void selfTimesSumToTheTrace() {
        assertEquals(hostTime(STEP), OPS.cpuSelf());
        assertEquals(3000 + 200, hostTime(STEP));
        assertEquals(deviceTime(STEP) - 5, OPS.deviceSelf(), "no operator launched the copy");
        assertEquals(hostTime(STEP), FoldedStacks.of(STEP, Time.CPU).total());
        assertEquals(deviceTime(STEP), FoldedStacks.of(STEP, Time.DEVICE).total());
    }

    @Test
    void tablesAreSortedFilteredAndTruncated() {
        assertEquals("aten::mm", OPS.rows().get(0).name());
        assertEquals(
                "ProfilerStep#0", OPS.sortedBy(OpRow::cpuTotal).rows().get(0).name());
        assertEquals(
                List.of("aten::mm", "aten::softmax"),
                OPS.operators().top(2).rows().stream().map(OpRow::name).toList());
        assertEquals(4, OPS.ranges().rows().size());
        assertEquals(
                1,
                OPS.filter(row -> row.calls() > 1 && row.deviceSelf() > 100)
                        .rows()
                        .size());
        var negative = assertThrows(IllegalArgumentException.class, () -> OPS.top(-1));
        assertEquals("count must be at least 0, not -1", negative.getMessage());
        var e = assertThrows(IllegalArgumentException.class, () -> OPS.row("aten::bmm"));
        assertTrue(e.getMessage().contains("'aten::bmm'") && e.getMessage().contains("aten::mm"), e.getMessage());
    }

    @Test
    void textsShowMillisecondsMicrosecondsAndPercentages() {
        Trace trace = new TraceText()
                .op(MAIN, "aten::mm", 0, 4_000_000)
                .launch(MAIN, 0, 1_000_000, 1)
                .launch(MAIN, 2_000_000, 3_000_000, 2)
                .kernel(7, "gemm", 0, 1_500_000, 1)
                .kernel(7, "gemm", 2_000_000, 2_500_000, 2)
                .read();
        assertEquals("""
                kind    launches  total (ms)  mean (µs)  of total (%)  kernel
                matmul         2       2.000      1,000         100.0  gemm""", KernelTable.of(trace).toString());
        assertEquals("""
                calls  CPU self (ms)  CPU self (%)  CPU total (ms)  CPU mean (µs)  GPU self (ms)  GPU self (%)  GPU total (ms)  GPU mean (µs)  name
                    1          4.000         100.0           4.000          4,000          2.000         100.0           2.000          2,000  aten::mm""", OpTable.of(trace).toString());
    }

    @Test
    void memoryBelongsToTheInnermostOperatorOfItsThread() {
        String memory = "{\"ph\": \"i\", \"name\": \"[memory]\", %s, \"ts\": %d, \"args\": "
                + "{\"Bytes\": %d, \"Addr\": 4096, \"Device Id\": %d, \"Device Type\": %d, \"Total Allocated\": 9}}";
        Trace trace = new TraceText()
                .op(MAIN, "outer", 0, 10_000)
                .op(MAIN, "inner", 2_000, 5_000)
                .launch(MAIN, 3_500, 4_500, 1)
                .op(ENGINE, "elsewhere", 0, 10_000)
                .raw(memory.formatted(MAIN, 3, 512, 0, 1))
                .raw(memory.formatted(MAIN, 4, -100, 0, 1)) // in a call of the operator
                .raw(memory.formatted(MAIN, 5, 8, 0, 1)) // at its end
                .raw(memory.formatted(MAIN, 6, 64, -1, 0))
                .raw(memory.formatted(MAIN, 20, 1, 0, 1)) // in no operator
                .read();
        assertEquals(420, OpTable.of(trace).row("inner").deviceMemory());
        assertEquals(0, OpTable.of(trace).row("inner").cpuMemory());
        assertEquals(64, OpTable.of(trace).row("outer").cpuMemory());
        assertEquals(0, OpTable.of(trace).row("elsewhere").deviceMemory());
        assertEquals(
                new MemoryEvent(new HostThread("1", "10"), 3_000, 0, 4096, 512, 9),
                trace.memory().get(0));
    }

    @Test
    void stacksLeadThroughRangesAndOperatorsToKernels() {
        FoldedStacks device = FoldedStacks.of(STEP, Time.DEVICE);
        assertEquals("""
                forward;aten::matmul;aten::mm;gemm 1000
                forward;softmax;aten::softmax;softmax_warp_forward 100
                forward;softmax;aten::sum;aten::sum;reduce_kernel 50
                forward;flash_attention_forward 620
                backward;autograd::engine::evaluate_function: MmBackward0;MmBackward0;aten::mm;gemm 400
                Memcpy HtoD (Pinned -> Device) 5
                """, device.toString());
        FoldedStacks cpu = FoldedStacks.of(STEP, Time.CPU);
        assertTrue(cpu.toString().startsWith("ProfilerStep 1200\nforward 190\n"), cpu.toString());
        assertTrue(cpu.toString().contains("forward;aten::matmul;aten::mm;cudaLaunchKernel 20\n"), cpu.toString());
    }
}
