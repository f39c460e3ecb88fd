package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class RotaryEmbeddingTest extends ScopedTest {
    private static final Device CPU = Device.cpu();
    private static final double THETA = 100;
    private static final int HEAD_DIM = 6;
    private static final int POSITIONS = 5;

    /** Returns the rotated elements of [1, T, H·d] in fp64. */
    private static double[] rotated(Tensor x) {
        double[] in = Tensors.toDoubles(x);
        double[] out = new double[in.length];
        int perPosition = in.length / POSITIONS;
        for (int i = 0; i < in.length; i += 2) {
            double angle = i / perPosition * Math.pow(THETA, -(double) (i % HEAD_DIM) / HEAD_DIM);
            out[i] = in[i] * Math.cos(angle) - in[i + 1] * Math.sin(angle);
            out[i + 1] = in[i] * Math.sin(angle) + in[i + 1] * Math.cos(angle);
        }
        return out;
    }

    private static Tensor apply(DType parameters, Tensor x, DType autocast) {
        try (var rotary = new RotaryEmbedding(THETA, HEAD_DIM, POSITIONS, CPU, parameters);
                var narrow = Autocast.of(CPU, autocast)) {
            return rotary.apply(x);
        }
    }

    @Test
    void underAutocastTheResultIsFp32UnlessTheParametersAreNarrow() {
        Tensor x = torch.randn(1, POSITIONS, 2 * HEAD_DIM).to(DType.BFLOAT16.scalarType());
        Tensor wide = apply(DType.FLOAT32, x, DType.BFLOAT16);
        assertEquals(DType.FLOAT32, DType.of(wide));
        double[] expected = rotated(x);
        double[] found = Tensors.toDoubles(wide);
        for (int i = 0; i < expected.length; i++) {
            assertEquals(expected[i], found[i], 1e-6);
        }
        Tensor rounded = wide.to(DType.BFLOAT16.scalarType());
        assertTrue(apply(DType.BFLOAT16, x, DType.BFLOAT16).equal(rounded));
        assertTrue(apply(DType.FLOAT32, x, DType.FLOAT32).equal(rounded));
    }
}
