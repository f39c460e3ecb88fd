package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class RandomFunctionTest {
    private static final int SEEDS = 500;
    private static final int GPU_SEEDS = 60; // each compiles a few kernels
    static final double BOUND = 2e-5; // relative to the largest element; sums of a function may cancel

    @Test
    void everyPassKeepsTheResultsOfRandomFunctions() {
        check(Device.cpu(), SEEDS);
    }

    @Test
    @Tag("gpu")
    void generatedKernelsComputeRandomFunctions() {
        check(Device.cuda(0), GPU_SEEDS);
    }

    private static void check(Device device, int seeds) {
        for (int seed = 0; seed < seeds; seed++) {
            try (var scope = MemoryScope.open();
                    var noGrad = NoGrad.open()) {
                Torch.seed(seed);
                var function = new RandomFunction(seed);
                Program recorded = Recorder.record(function, function.inputs(device));
                Tensor[] inputs = function.inputs(device);
                Tensor[] expected = function.apply(inputs);
                for (var stage : FusionPasses.stages(recorded, device).entrySet()) {
                    double bound = stage.getKey().equals("recorded") ? 0 : BOUND;
                    Tensor[] got = new Interpreter(stage.getValue()).run(inputs);
                    assertEquals(expected.length, got.length);
                    for (int i = 0; i < expected.length; i++) {
                        double error = relativeError(expected[i], got[i]);
                        assertTrue(
                                error <= bound,
                                "seed " + seed + ", " + stage.getKey() + ", output " + i + ": " + error + "\n"
                                        + stage.getValue());
                    }
                }
            }
        }
    }

    private static double relativeError(Tensor expected, Tensor got) {
        assertArrayEquals(Tensors.shape(expected), Tensors.shape(got));
        assertEquals(DType.of(expected), DType.of(got));
        if (expected.numel() == 0) {
            return 0;
        }
        double scale = expected.abs().max().item_double() + 1e-30;
        return got.sub(expected).abs().max().item_double() / scale;
    }
}
