package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.torch.Backward;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class DropoutTest extends ScopedTest {
    @Test
    void outputAndGradientAreThoseOfPyTorchAfterTheSameSeed() {
        for (double p : new double[] {0, 0.1, 0.5, 1}) {
            var layer = new Dropout(p);
            Tensor x = torch.randn(40, 30).set_requires_grad(true);
            Torch.seed(11);
            Tensor y = layer.forward(x);
            Torch.seed(11);
            Tensor expected = torch.dropout(x, p, true);
            assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(y));
            Tensor gradient = Backward.of(y.square().sum()).gradients(x)[0];
            Tensor expectedGradient = Backward.of(expected.square().sum()).gradients(x)[0];
            assertArrayEquals(Tensors.toDoubles(expectedGradient), Tensors.toDoubles(gradient));
        }
    }

    @Test
    void inEvaluationModeTheOutputIsTheInput() {
        var layer = new Dropout(0.5);
        Tensor x = torch.randn(100);
        layer.eval();
        assertArrayEquals(Tensors.toDoubles(x), Tensors.toDoubles(layer.forward(x)));
        layer.train();
        long zeros = Arrays.stream(Tensors.toDoubles(layer.forward(x)))
                .filter(value -> value == 0)
                .count();
        assertEquals(50, zeros, 30);
    }

    @Test
    void argumentsOutOfRangeAreNamed() {
        for (double p : new double[] {-0.1, 1.1, Double.NaN}) {
            var e = assertThrows(IllegalArgumentException.class, () -> new Dropout(p));
            assertEquals("p must be from 0 to 1, not " + p, e.getMessage());
        }
        Tensor ids = Tensors.of(new long[] {1}, 1);
        var e = assertThrows(IllegalArgumentException.class, () -> new Dropout(0.5).forward(ids));
        assertEquals("input must be floating-point, not int64", e.getMessage());
    }
}
