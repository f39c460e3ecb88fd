package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.profile.PythonMemoryViz;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryStats;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("gpu")
class MemoryGpuTest {
    private static final TransformerConfig CONFIG = TransformerConfig.builder()
            .contextLength(256)
            .dModel(1024)
            .numLayers(6)
            .numHeads(16)
            .dFf(4096)
            .build();

    @TempDir
    Path folder;

    /** Frees the tensors of earlier tests, because the recording does not see what the garbage collector frees. */
    @BeforeEach
    void collectGarbage() throws InterruptedException {
        for (int i = 0; i < 10; i++) {
            System.gc();
            Thread.sleep(20);
        }
    }

    @Test
    void thePeakIsThatOfTheAllocatorStatistics() {
        Device cuda = Device.cuda(0);
        MemoryStats.resetPeak(cuda);
        MemoryRecord record = PassMemory.of(CONFIG, cuda).record(Pass.STEP);
        assertEquals(MemoryStats.peak(cuda), record.peakBytes());
    }

    @ParameterizedTest
    @CsvSource({"fp32, forward-graph", "fp32, step", "bf16, forward-graph", "bf16, step"})
    void thePeakIsWithinFivePercentOfThePrediction(String dtype, String pass) {
        Device cuda = Device.cuda(0);
        MemoryRecord record =
                PassMemory.of(CONFIG, cuda).precision(Precision.parse(dtype)).record(Pass.parse(pass));
        long own = record.allocations().stream()
                .filter(a -> a.from() >= 0 && a.bytes() == ModelMemory.CUBLAS_WORKSPACE)
                .mapToLong(Allocation::bytes)
                .sum();
        long workspaces = ModelMemory.CUBLAS_WORKSPACE * (pass.equals("step") ? 2 : 1);
        var predicted = new ModelMemory(CONFIG, 4, DType.parse(dtype), cuda.kind()).peak(Pass.parse(pass));
        double tensors = record.peakBytes() - before(record) - own;
        assertEquals(predicted.bytes() - workspaces, tensors, 0.05 * tensors, predicted.name());
    }

    @Test
    void theSnapshotIsTheAllocatorHistoryWithOurPlaces() throws IOException {
        MemoryRecord record = PassMemory.of(CONFIG, Device.cuda(0)).record(Pass.STEP);
        MemoryRecord read = MemorySnapshot.read(record.saveSnapshot(folder.resolve("memory_snapshot.pickle")));
        assertEquals("cuda:0", read.device());
        long ofRecord = record.allocations().stream().filter(a -> a.from() >= 0).count();
        long ofSnapshot = read.allocations().stream().filter(a -> a.from() >= 0).count();
        assertEquals(ofRecord, ofSnapshot);
        assertTrue(read.allocations().stream()
                .anyMatch(a -> a.place().equals("TransformerLM/layers.5/attn/attention.softmax")
                        && a.bytes() == 4L * 16 * 256 * 256 * 4));
        double own = record.peakBytes() - before(record);
        assertEquals(own, read.peakBytes(), 0.02 * own, "blocks are rounded up");
    }

    @Test
    void pythonReadsTheSameFromASnapshot() throws IOException {
        MemoryRecord record = PassMemory.of(CONFIG, Device.cuda(0)).record(Pass.FORWARD_GRAPH);
        PythonMemoryViz python = PythonMemoryViz.of(record.saveSnapshot(folder.resolve("memory_snapshot.pickle")));
        assertEquals(record.allocations().stream().filter(a -> a.from() >= 0).count(), python.allocations());
        assertTrue(python.segments() > 0);
        double own = record.peakBytes() - before(record);
        assertEquals(own, python.peakBytes(), 0.02 * own, "blocks are rounded up");
        assertTrue(python.largest().contains("TransformerLM"), python.largest());
    }

    /** Returns the bytes in use before the recording, such as cuBLAS workspaces of earlier tests. */
    private static long before(MemoryRecord record) {
        return record.allocations().stream()
                .filter(a -> a.from() == Allocation.BEFORE)
                .mapToLong(Allocation::bytes)
                .sum();
    }
}
