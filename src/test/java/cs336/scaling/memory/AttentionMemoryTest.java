package cs336.scaling.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import cs336.basics.Attention;
import cs336.basics.PlainAttention;
import cs336.bench.BenchmarkResult;
import cs336.bench.ChildJvm;
import cs336.kernels.attention.AttentionBenchmark;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tech.tablesaw.api.Table;

class AttentionMemoryTest {
    private static final double WITHIN = 0.05;
    private static final long MIB = 1 << 20;
    private static final Duration LIMIT = Duration.ofMinutes(10); // the first process on a machine unpacks libraries

    private static AttentionMemory fp32(int batch, int context, int d, boolean causal) {
        return new AttentionMemory(batch, context, d, DType.FLOAT32, causal, DeviceKind.CPU);
    }

    private static List<String> names(MemoryInventory inventory) {
        return inventory.tensors().stream().map(TensorMemory::name).toList();
    }

    @Test
    void everyTensorIsNamedAndCounted() {
        AttentionMemory memory = fp32(8, 16384, 16, true);
        long rows = 4L * 8 * 16384 * 16;
        long mask = 4L * 16384 * 16384;
        long matrix = 8 * mask;
        assertEquals(
                List.of(
                        "queries",
                        "keys",
                        "values",
                        "gradient of output",
                        "scaled queries",
                        "mask",
                        "scores",
                        "probabilities"),
                names(memory.peakOfForward()));
        assertEquals(5 * rows + mask + 2 * matrix, memory.peakOfForward().bytes());
        assertEquals(6 * rows + mask + matrix, memory.beforeBackward().bytes());
        assertEquals(7 * rows + mask + 3 * matrix, memory.peakOfBackward().bytes());
        assertEquals(memory.peakOfBackward().bytes(), memory.peakBytes());
        assertEquals(4 * rows, memory.inputBytes());
    }

    @Test
    void onCudaTheSoftmaxBackwardNeedsOneMoreTensor() {
        var onGpu = new AttentionMemory(8, 1024, 64, DType.FLOAT32, false, DeviceKind.CUDA);
        var onCpu = fp32(8, 1024, 64, false);
        assertEquals(4L * 8 * 1024 * 1024, onGpu.peakBytes() - onCpu.peakBytes());
        assertEquals(onCpu.peakOfForward(), onGpu.peakOfForward());
    }

    @Test
    void withoutACausalMaskNoneIsCounted() {
        AttentionMemory memory = fp32(8, 256, 64, false);
        assertTrue(!names(memory.peakOfForward()).contains("mask"));
        long mask = 4L * 256 * 256;
        assertEquals(mask, fp32(8, 256, 64, true).peakBytes() - memory.peakBytes());
    }

    @Test
    void peaksAreInTheMatmulsIfRowsAreWiderThanTheContextIsLong() {
        AttentionMemory memory = fp32(1, 32, 128, false);
        assertEquals("matmul with V", memory.peakOfForward().name());
        assertEquals("backward of matmul with K", memory.peakOfBackward().name());
        assertEquals("softmax", fp32(1, 128, 32, false).peakOfForward().name());
    }

    @Test
    void halfTheBytesPerElementAreHalfTheMemory() {
        var narrow = new AttentionMemory(2, 100, 16, DType.BFLOAT16, true, DeviceKind.CPU);
        assertEquals(fp32(2, 100, 16, true).peakBytes(), 2 * narrow.peakBytes());
    }

    @ParameterizedTest
    @ValueSource(longs = {24_000_000_000L, 80_000_000_000L, 141_000_000_000L})
    void theLongestContextJustFits(long bytes) {
        int context = AttentionMemory.longestContext(8, 64, DType.FLOAT32, true, DeviceKind.CPU, bytes);
        assertTrue(fp32(8, context, 64, true).peakBytes() <= bytes);
        assertTrue(fp32(8, context + 1, 64, true).peakBytes() > bytes);
        assertEquals(0, AttentionMemory.longestContext(8, 64, DType.FLOAT32, true, DeviceKind.CPU, 100));
        int ofManyHeads = AttentionMemory.longestContext(16_384, 64, DType.FLOAT32, true, DeviceKind.CPU, bytes);
        assertTrue(fp32(16_384, ofManyHeads + 1, 64, true).peakBytes() > bytes);
    }

    @Test
    void theTablesLastRowIsTheSum() {
        AttentionMemory memory = fp32(8, 1024, 64, true);
        Table table = memory.table();
        assertEquals(
                List.of("tensor", "shape", "peak of forward (MiB)", "before backward (MiB)", "peak of backward (MiB)"),
                table.columnNames());
        for (String point : table.columnNames().subList(2, 5)) {
            double[] mib = table.doubleColumn(point).removeMissing().asDoubleArray();
            double sum = mib[mib.length - 1];
            assertEquals(sum, Arrays.stream(mib).sum() - sum, 1e-9);
        }
        assertEquals(memory.peakBytes() / (double) MIB, table.doubleColumn(4).get(table.rowCount() - 1), 1e-9);
        assertTrue(table.doubleColumn("peak of backward (MiB)")
                .isMissing(table.stringColumn("tensor").indexOf("scores")));
    }

    /**
     * At this length the allocator maps each matrix separately and unmaps it when it is freed, so that the size of the
     * process follows. The passes run in a child process: in this one, the JIT compiler and the garbage collector would
     * free tens of MiB from other tests meanwhile.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aProcessGrowsByTheCountedBytes(boolean causal) throws Exception {
        AttentionMemory memory = fp32(1, AllocatedPasses.CONTEXT, AllocatedPasses.D, causal);
        try (var process = ChildJvm.start(AllocatedPasses.class, Map.of(), line -> {})) {
            process.tell(String.valueOf(causal));
            for (var point : List.of(memory.peakOfForward(), memory.beforeBackward(), memory.peakOfBackward())) {
                String grownBy = process.answer(LIMIT);
                if (grownBy == null) {
                    fail(String.join("\n", process.end().lastLines()));
                }
                assertWithin(point.name(), point.bytes(), memory.inputBytes() + Long.parseLong(grownBy));
            }
        }
    }

    /** Both passes in a process that answers with its growth in bytes at each of the three points of the step. */
    static final class AllocatedPasses {
        static final int CONTEXT = 8192;
        static final int D = 8;

        public static void main(String[] args) throws Exception {
            var test = new ChildJvm.Child();
            boolean causal = Boolean.parseBoolean(test.next());
            Device cpu = Device.cpu();
            loadCode();
            try (var scope = MemoryScope.open()) {
                Tensor[] qkv = leaves(CONTEXT);
                Tensor dO = rows(CONTEXT);
                Attention attention = new PlainAttention();
                long atRest = MemoryStats.current(cpu);
                MemoryStats.resetPeak(cpu);
                Tensor output = attention.apply(qkv[0], qkv[1], qkv[2], causal);
                test.answer(String.valueOf(MemoryStats.peak(cpu) - atRest));
                test.answer(String.valueOf(MemoryStats.current(cpu) - atRest));
                MemoryStats.resetPeak(cpu);
                Backward.of(output).with(dO).run();
                test.answer(String.valueOf(MemoryStats.peak(cpu) - atRest));
            }
            test.end(0);
        }

        /**
         * Warms up, because a process grows by code and workspaces in its first passes. The causal pass is short, so
         * that the mask it leaves to the garbage collector is small.
         */
        private static void loadCode() {
            pass(CONTEXT, false);
            pass(64, true);
        }

        private static void pass(int context, boolean causal) {
            try (var scope = MemoryScope.open()) {
                Tensor[] qkv = leaves(context);
                Tensor output = new PlainAttention().apply(qkv[0], qkv[1], qkv[2], causal);
                Backward.of(output).with(rows(context)).run();
            }
        }

        private static Tensor[] leaves(int context) {
            Tensor[] leaves = new Tensor[3];
            Arrays.setAll(leaves, i -> rows(context).set_requires_grad(true));
            return leaves;
        }

        private static Tensor rows(int context) {
            return torch.randn(new long[] {1, context, D}, Device.cpu().options(DType.FLOAT32));
        }
    }

    @Tag("gpu")
    @ParameterizedTest
    @CsvSource({"1024, 16, false", "1024, 128, true", "4096, 64, false", "4096, 64, true", "8192, 32, false"})
    void theGpuHoldsTheCountedBytes(int context, int d, boolean causal) {
        var memory = new AttentionMemory(8, context, d, DType.FLOAT32, causal, DeviceKind.CUDA);
        BenchmarkResult measured = AttentionBenchmark.of("plain")
                .device(Device.cuda(0))
                .context(context)
                .d(d)
                .causal(causal)
                .warmup(1)
                .steps(1)
                .run();
        double libraries = bytes(measured, "memory-at-rest") - memory.inputBytes();
        assertWithin(
                "peak of forward", memory.peakOfForward().bytes(), bytes(measured, "peak-memory-forward") - libraries);
        assertWithin(
                "before backward",
                memory.beforeBackward().bytes(),
                bytes(measured, "memory-before-backward") - libraries);
        assertWithin(
                "peak of backward",
                memory.peakOfBackward().bytes(),
                bytes(measured, "peak-memory-backward") - libraries);
    }

    private static double bytes(BenchmarkResult result, String metric) {
        return result.samples(metric).values().get(0);
    }

    private static void assertWithin(String point, double counted, double measured) {
        assertTrue(
                Math.abs(measured / counted - 1) <= WITHIN,
                "%s: counted %.1f MiB, measured %.1f MiB".formatted(point, counted / MIB, measured / MIB));
    }

    @Test
    void sizesBelowOneAreRejected() {
        var thrown = assertThrows(IllegalArgumentException.class, () -> fp32(8, 0, 16, false));
        assertEquals("context must be at least 1, not 0", thrown.getMessage());
    }
}
