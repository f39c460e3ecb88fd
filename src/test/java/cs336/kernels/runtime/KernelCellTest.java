package cs336.kernels.runtime;

import static cs336.bench.Measurement.once;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.torch.DType;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KernelCellTest {
    private static final Provenance H200 = new Provenance(
            "h200", "NVIDIA H200", "pytorch 2.10.0", "0123456789", "2026-11-23T07:30:00Z", "Xeon (16 cores)", "1.00");

    @TempDir
    private Path folder;

    private static KernelCell doubled() {
        return KernelCell.of("05 doubled", new long[] {40, 3}).bytes(960).reference(in ->
                new Tensor[] {in[0].mul(new Scalar(2))});
    }

    private Measurements file() {
        return Measurements.of(folder, "h200", KernelCell.PROBLEM);
    }

    private static Case stored(String launches) {
        return Case.measuredHere("cs336")
                .with("cell", "05 doubled")
                .with("inputs", "fp32 [40×3]")
                .with("launches", launches);
    }

    private static List<Measurement> rows(double difference) {
        return List.of(
                once("y difference", "", difference),
                once("y largest", "", 3.5),
                once("y value 0", "", -1.25),
                once("y value 1", "", 2),
                once("doubled registers", "", 12),
                once("doubled shared-memory", "bytes", 2_048),
                once("doubled spills", "bytes", 0),
                Measurement.of(new Samples(Metric.ms("time"), List.of(0.5, 0.25, 1.0))),
                once("rate", "GB/s", 1_920));
    }

    @Test
    void withoutAGpuTheStoredExecutionIsShownWithDeviceCommitAndDate() throws IOException {
        file().put(stored("doubled<<<2, 64, 2048>>>"), rows(2e-7), H200);
        assertEquals("""
                stored: NVIDIA H200, commit 0123456789, 2026-11-23
                The kernels of this cell did not run here; changes to them do not show.
                doubled<<<2, 64, 2048>>>
                    12 registers a thread, 0 bytes spilled, 2,048 bytes of shared memory a block
                inputs: fp32 [40×3], random
                y: largest difference from fp64 2.0e-07, largest value 3.500, first values -1.250, 2.000
                time: median 0.5000 ms of 3 runs (0.2500 to 1.000 ms), 1,920 GB/s""", doubled().stored(file().path()).toString());
    }

    @Test
    void theLatestStoredExecutionCounts() throws IOException {
        file().put(stored("doubled<<<2, 64, 0>>>"), rows(2e-7), H200);
        file().put(stored("doubled<<<4, 32, 0>>>"), rows(5e-7), H200.updated());
        KernelRun run = doubled().stored(file().path());
        assertEquals("doubled<<<4, 32, 0>>>", run.launches());
        assertTrue(run.toString().contains("fp64 5.0e-07,"), run.toString());
        assertEquals(rows(0).size(), run.rows().size());
    }

    @Test
    void withoutAStoredExecutionOneLineSaysSo() throws IOException {
        String none =
                "No execution of \"05 doubled\" is stored yet. This cell runs its kernels on a machine with a GPU.";
        assertEquals(none, doubled().stored(file().path()).toString());
        file().put(stored("doubled<<<2, 64, 0>>>"), rows(2e-7), H200);
        assertFalse(doubled().stored(file().path()).rows().isEmpty());
        assertEquals(
                none.replace("doubled", "tripled"),
                KernelCell.of("05 tripled", new long[] {40, 3})
                        .stored(file().path())
                        .toString());
    }

    @Test
    void withoutAnExecutionOfTheseInputsTheStoredOnesAreNamed() throws IOException {
        file().put(stored("doubled<<<2, 64, 0>>>"), rows(2e-7), H200);
        file().put(stored("doubled<<<2, 64, 0>>>").with("inputs", "fp32 [9] [3]"), rows(2e-7), H200);
        assertEquals(
                "\"05 doubled\" is stored for fp32 [40×3] and fp32 [9] [3] only;"
                        + " other inputs run on a machine with a GPU.",
                doubled().dtype(DType.BFLOAT16).stored(file().path()).toString());
    }

    @Test
    void theStoredResultIsTheMeasuredOneExceptForItsBeginning() throws IOException {
        KernelCell cell = doubled();
        KernelRun measured = cell.measure(Device.cpu(), H200, in -> new Tensor[] {in[0].add(in[0])});
        cell.store(measured, file(), H200);
        String text = measured.toString();
        assertTrue(text.startsWith("measured now: NVIDIA H200, commit 0123456789, 2026-11-23\n"), text);
        assertTrue(text.contains("y: largest difference from fp64 0.0, "), text);
        assertEquals(
                text.replace("measured now:", "stored:").replaceFirst("\n", "\n" + KernelRun.NOT_RUN_HERE + "\n"),
                cell.stored(file().path()).toString());
    }

    @Test
    void aWrongKernelIsNotStored() {
        KernelCell cell = KernelCell.of("05 two", new long[] {40}, new long[] {40})
                .outputs("sum", "product")
                .flops(80)
                .reference(in -> new Tensor[] {in[0].add(in[1]), in[0].mul(in[1])});
        var wrong = assertThrows(
                IllegalStateException.class,
                () -> cell.measure(Device.cpu(), H200, in ->
                        new Tensor[] {in[0].add(in[1]), in[0].mul(in[1]).mul(new Scalar(1.01))}));
        assertTrue(wrong.getMessage().startsWith("05 two: product differs from fp64 by "), wrong.getMessage());
        var notANumber = assertThrows(
                IllegalStateException.class,
                () -> cell.measure(Device.cpu(), H200, in ->
                        new Tensor[] {in[0].add(in[1]), in[0].mul(new Scalar(Double.NaN))}));
        assertTrue(notANumber.getMessage().contains("product differs from fp64 by NaN"), notANumber.getMessage());
        var one = assertThrows(
                IllegalStateException.class, () -> cell.measure(Device.cpu(), H200, in -> new Tensor[] {in[0]}));
        assertEquals(
                "05 two has the outputs [sum, product], but the kernels return 1 and the reference 2",
                one.getMessage());
    }

    @Test
    void aCellWithoutReferenceIsRefused() {
        var refused = assertThrows(
                IllegalStateException.class,
                () -> KernelCell.of("05 x", new long[] {4}).measure(Device.cpu(), H200, in -> in));
        assertEquals("05 x needs a reference, and bytes or FLOPs", refused.getMessage());
    }

    @Test
    @Tag("gpu")
    void aGpuRunsTheKernelAndReportsItsResources() throws IOException {
        Device gpu = Device.cuda(0);
        var module = KernelModule.load(KernelSource.of("doubled.cu", """
                        extern "C" __global__ void doubled(const float *x, float *y, int n) {
                            extern __shared__ float staged[];
                            int i = blockIdx.x * blockDim.x + threadIdx.x;
                            staged[threadIdx.x] = i < n ? x[i] : 0;
                            if (i < n) y[i] = 2 * staged[threadIdx.x];
                        }
                        """), Map.of(), gpu);
        KernelRun run = doubled().run(gpu, in -> {
            Tensor y = Gpu.of(in[0]).empty(40, 3);
            module.kernel("doubled").launch(new GridDim(2), new BlockDim(64), 256, in[0], y, 120);
            return new Tensor[] {y};
        });
        assertEquals("doubled<<<2, 64, 256>>>", run.launches());
        assertTrue(run.toString().contains("256 bytes of shared memory a block"), run.toString());
        assertTrue(run.toString().startsWith("measured now: " + gpu.productName()), run.toString());
    }
}
