package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.trace.TensorFunction;
import cs336.torch.Backward;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Compiled functions that change in place how a tensor object refers to memory. */
class InPlaceViewsTest extends ScopedTest {
    private static final long[] SHAPE = {3, 4};

    private static Tensor input(boolean requiresGrad) {
        return torch.randn(SHAPE).set_requires_grad(requiresGrad);
    }

    /** Compares three calls with plain execution, each with new inputs, which the calls must not change. */
    private static void checkLikePlain(boolean requiresGrad, TensorFunction function) {
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 3; call++) {
                Tensor x = input(requiresGrad);
                Tensor y = input(requiresGrad);
                Tensor expected = function.apply(x, y)[0];
                double[] before = Tensors.toDoubles(x);
                Tensor actual = compiled.apply(x, y)[0];
                assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(actual), 1e-6, "call " + call);
                assertArrayEquals(before, Tensors.toDoubles(x));
                assertArrayEquals(SHAPE, Tensors.shape(x));
            }
        }
    }

    private static String refusal(boolean requiresGrad, TensorFunction function) {
        return Refusal.of(function, input(requiresGrad), input(requiresGrad));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aTemporaryTensorCanReferToOtherMemory(boolean requiresGrad) {
        checkLikePlain(requiresGrad, in -> {
            Tensor empty = torch.zeros(new long[] {0}, in[0].options());
            return new Tensor[] {empty.set_(in[0].detach().storage()).mul(in[1].flatten())};
        });
        checkLikePlain(requiresGrad, in -> {
            Tensor empty = torch.zeros(new long[] {0}, in[0].options());
            return new Tensor[] {empty.set_(in[0].detach()).mul(in[1])};
        });
        checkLikePlain(requiresGrad, in -> {
            in[0].detach().set_(in[1].detach());
            return new Tensor[] {in[0].mul(in[1])};
        });
        checkLikePlain(requiresGrad, in -> {
            Tensor other = in[0].detach();
            other.set_data(in[1].detach());
            return new Tensor[] {other.mul(in[1])};
        });
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aTemporaryTensorCanHaveAnotherShape(boolean requiresGrad) {
        checkLikePlain(requiresGrad, in ->
                new Tensor[] {in[0].detach().t_().contiguous().mul(in[1].t())});
        checkLikePlain(
                requiresGrad, in -> new Tensor[] {in[0].mul(in[1]).unsqueeze_(0).add(in[0])});
        checkLikePlain(requiresGrad, in ->
                new Tensor[] {in[0].detach().clone().resize_(2, 4).mul(in[1].narrow(0, 0, 2))});
        checkLikePlain(requiresGrad, in ->
                new Tensor[] {in[0].detach().resize_(2, 4).mul(in[1].narrow(0, 0, 2))});
    }

    @Test
    void aViewOfAnInputThatIsNoLeafCanHaveAnotherShape() {
        TensorFunction function =
                in -> new Tensor[] {in[0].narrow(0, 0, 2).t_().mul(in[0].t().narrow(1, 1, 2))};
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 3; call++) {
                Tensor leaf = input(true);
                Tensor expected = function.apply(leaf.neg())[0];
                Tensor actual = compiled.apply(leaf.neg())[0];
                assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(actual));
                assertArrayEquals(gradient(expected, leaf), gradient(actual, leaf), 1e-5);
            }
            assertEquals(1, compiled.recordings());
        }
    }

    private static double[] gradient(Tensor output, Tensor leaf) {
        return Tensors.toDoubles(Backward.of(output.sum()).gradients(leaf)[0]);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aChangedTensorOutsideOfTheFunctionIsRefused(boolean requiresGrad) {
        String replaced = "the function cannot be recorded: it changes the shape or replaces the memory of ";
        assertEquals(replaced + "input 0", refusal(requiresGrad, in -> {
            in[0].set_data(in[1].detach().clone());
            return new Tensor[] {in[0].mul(in[1])};
        }));
        assertEquals(replaced + "input 1", refusal(false, in -> {
            in[1].t_();
            return new Tensor[] {in[0].mm(in[1])};
        }));
        Tensor captured = torch.randn(SHAPE);
        assertEquals(replaced + "constant0", refusal(requiresGrad, in -> {
            Tensor sum = in[0].add(captured);
            captured.set_data(in[1].detach().clone());
            return new Tensor[] {sum};
        }));
        String resized = refusal(requiresGrad, in -> {
            in[0].detach().resize_(5, 4);
            return new Tensor[] {in[0].mul(in[1])};
        });
        assertTrue(resized.startsWith("the function cannot be recorded: it resizes a tensor outside of it"), resized);
        assertTrue(resized.contains("InPlaceViewsTest"), resized);
    }
}
