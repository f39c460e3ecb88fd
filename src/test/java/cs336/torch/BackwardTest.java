package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class BackwardTest extends ScopedTest {
    private Tensor x;
    private Tensor unused;

    @BeforeEach
    void open() {
        x = Tensors.of(new double[] {3}, 1).set_requires_grad(true);
        unused = Tensors.of(new double[] {1}, 1).set_requires_grad(true);
    }

    @Test
    void runAccumulatesTheGradientsOfLeaves() {
        Backward.of(x.mul(x)).run();
        Backward.of(x.mul(x), x.mul(x).mul(x)).run();
        assertEquals(6 + 6 + 27, x.grad().item_double());
    }

    @Test
    void gradientsAreReturnedAndNullForUnusedInputs() {
        Tensor[] gradients = Backward.of(x.mul(x)).gradients(unused, x);
        assertNull(gradients[0]);
        assertEquals(6, gradients[1].item_double());
        assertFalse(gradients[1].requires_grad());
        assertFalse(x.grad().defined());
    }

    @Test
    void invalidCallsAreRefused() {
        Tensor vector = Tensors.of(new double[] {1, 2}, 2).mul(x);
        assertMessage(
                "output 0 has the shape [2], so its gradient must be given",
                () -> Backward.of(vector).run());
        assertMessage(
                "gradient 0 must have the shape of its output, [2], not [1]",
                () -> Backward.of(vector).with(x));
        assertMessage("inputs must contain", () -> Backward.of(x.mul(x)).gradients());
        assertMessage(
                "input 0 must require a gradient", () -> Backward.of(x.mul(x)).gradients(x.detach()));
        assertNull(Backward.of(x.mul(x)).gradientsWhereRequired(x.detach())[0]);
    }

    private static void assertMessage(String message, Executable call) {
        String actual = assertThrows(RuntimeException.class, call).getMessage();
        assertTrue(actual.startsWith(message), actual);
    }

    @Test
    void outputGradientsWeightTheOutputs() {
        Tensor two = Tensors.of(new double[] {2}, 1);
        assertEquals(12, Backward.of(x.mul(x)).with(two).gradients(x)[0].item_double());
        Backward.of(x.mul(x)).with(two).run();
        assertEquals(12, x.grad().item_double());
    }

    @Test
    void graphOfTheBackwardPassIsDifferentiable() {
        Tensor y = x.mul(x).mul(x);
        Tensor dx = Backward.of(y).createGraph().gradients(x)[0];
        assertEquals(18, Backward.of(dx).gradients(x)[0].item_double());
    }

    @Test
    void invalidArgumentsAreRefused() {
        Tensor y = x.mul(x);
        assertThrows(IllegalArgumentException.class, () -> Backward.of());
        var noGraph = assertThrows(IllegalArgumentException.class, () -> Backward.of(y, y.detach()));
        assertTrue(noGraph.getMessage().startsWith("output 1 has no graph"), noGraph.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Backward.of(y).with(y, y));
        assertThrows(
                RuntimeException.class,
                () -> Backward.of(y.mul(Tensors.of(new double[2], 2))).run());
    }
}
