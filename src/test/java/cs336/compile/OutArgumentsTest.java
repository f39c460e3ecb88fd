package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import cs336.compile.trace.TensorFunction;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/** Compiled functions whose operators write their results to given tensors and change the shapes of these tensors. */
class OutArgumentsTest extends ScopedTest {
    private static final long[] SHAPE = {4, 4};

    /** Compares calls with plain execution, each with new inputs, which both calls must change alike. */
    private static void checkLikePlain(TensorFunction function) {
        checkLikePlain(3, function);
    }

    private static void checkLikePlain(int calls, TensorFunction function) {
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < calls; call++) {
                Tensor[] inputs = {torch.randn(SHAPE), torch.randn(SHAPE)};
                Tensor[] copies = {inputs[0].clone(), inputs[1].clone()};
                Tensor[] expected = function.apply(inputs);
                Tensor[] actual = compiled.apply(copies);
                for (int i = 0; i < expected.length; i++) {
                    checkEqual(expected[i], actual[i]);
                }
                checkEqual(inputs[0], copies[0]);
                checkEqual(inputs[1], copies[1]);
            }
        }
    }

    private static void checkEqual(Tensor expected, Tensor actual) {
        assertArrayEquals(Tensors.shape(expected), Tensors.shape(actual));
        assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(actual), 1e-5);
    }

    /** Only the stack holds the views of a replayed call. Reads of freed views abort one of many calls. */
    @Test
    void severalResultsMayBeViews() {
        checkLikePlain(50, in -> {
            Tensor signs = in[0].exp();
            Tensor logarithms = in[0].exp();
            torch.linalg_slogdet_out(
                    signs.select(0, 1).select(0, 1), logarithms.select(0, 1).select(0, 1), in[0]);
            return new Tensor[] {signs.exp(), logarithms};
        });
    }
}
