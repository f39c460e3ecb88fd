package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.scaling.memory.AttentionMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("gpu")
class AttentionWorkloadGpuTest {
    private static List<Samples> measure(AttentionWorkload workload, String attention, int context) {
        List<Samples> samples = new ArrayList<>();
        workload.run(
                AttentionProtocol.DO_BENCH
                        .caseOf(new AttentionCase(attention, 1, 2, 64, context, "bf16", true))
                        .setting("device", "cuda")
                        .setting("warmup", 1)
                        .setting("rep", 5),
                samples::add);
        return samples;
    }

    private static double peak(List<Samples> samples) {
        assertEquals(Metric.bytes("peak-memory"), samples.get(3).metric());
        return samples.get(3).summary().median();
    }

    @Test
    void peakMemoryOfPlainAttentionIsItsTensorsWhateverTheCaseBefore() {
        var workload = new AttentionWorkload();
        double large = peak(measure(workload, "plain", 4096));
        double small = peak(measure(workload, "plain", 2048));
        assertEquals(tensors(4096), large, 0.05 * large);
        assertEquals(tensors(2048), small, 0.05 * small);
    }

    private static double tensors(int context) {
        var twoHeads = new AttentionMemory(2, context, 64, DType.BFLOAT16, true, DeviceKind.CUDA);
        return twoHeads.peakBytes() - twoHeads.inputBytes();
    }

    @Test
    void everyTimeIsPositiveAndEndToEndTakesLongerThanForward() {
        List<Samples> samples = measure(new AttentionWorkload(), "sdpa", 4096);
        double forward = samples.get(0).summary().median();
        double backward = samples.get(1).summary().median();
        double both = samples.get(2).summary().median();
        assertTrue(forward > 0 && backward > 0 && both > forward, forward + ", " + backward + ", " + both);
    }
}
