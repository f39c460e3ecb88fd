package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.trace.TensorFunction;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.LongOptional;
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

    private static void assertRefused(String reason, TensorFunction function, Tensor... inputs) {
        String message = Refusal.of(function, inputs);
        assertTrue(message.startsWith("the function cannot be recorded: " + reason), message);
    }

    private static Tensor zeros(long... shape) {
        return torch.zeros(shape);
    }

    @Test
    void aResultMayGrow() {
        checkLikePlain(in -> new Tensor[] {torch.mm_out(zeros(0), in[0], in[1]).mul(in[0])});
        checkLikePlain(in -> {
            Tensor result = zeros(0);
            torch.mm_out(result, in[0], in[1]);
            torch.add_out(result, in[0], result);
            return new Tensor[] {result, result.exp()};
        });
    }

    @Test
    void otherTensorsInTheMemoryOfAResultKeepTheirShapes() {
        checkLikePlain(in -> {
            Tensor result = zeros(2);
            Tensor other = result.detach();
            torch.mm_out(result, in[0], in[1]);
            return new Tensor[] {result.exp(), other.exp()};
        });
        checkLikePlain(in -> {
            Tensor result = in[0].clone();
            Tensor other = result.detach();
            torch.sum_out(result, in[1], 0);
            return new Tensor[] {result.exp(), other.exp()};
        });
    }

    @Test
    void aResultInTheMemoryOfAnInputLeavesTheShapeOfTheInput() {
        checkLikePlain(in -> {
            torch.sum_out(in[0].detach(), in[1], 0);
            return new Tensor[] {in[0].exp()};
        });
        Tensor captured = torch.randn(SHAPE);
        checkLikePlain(in -> {
            torch.sum_out(captured.detach(), in[1], 0);
            return new Tensor[] {captured.exp()};
        });
    }

    @Test
    void resultsOutsideOfTheFunctionMustNotGrow() {
        Tensor captured = zeros(0);
        assertRefused(
                "it resizes a tensor outside of it, called at OutArgumentsTest",
                in -> new Tensor[] {torch.mm_out(captured.detach(), in[0], in[0])},
                torch.randn(SHAPE));
    }

    @Test
    void aResultThatIsReadMustNotBeResized() {
        Tensor x = torch.randn(SHAPE);
        assertRefused(
                "sum.IntList_out resizes a tensor that it also reads; pass another tensor for the result, called at",
                in -> {
                    Tensor copy = in[0].clone();
                    return new Tensor[] {torch.sum_out(copy, copy, 0)};
                },
                x);
        assertRefused(
                "mm.out resizes a tensor that it also reads; pass another tensor for the result, called at",
                in -> {
                    Tensor copy = in[0].clone();
                    return new Tensor[] {torch.mm_out(copy, copy, in[1])};
                },
                x,
                torch.randn(4, 6));
        checkLikePlain(in -> {
            Tensor copy = in[0].clone();
            return new Tensor[] {torch.mm_out(copy, copy, in[1]), copy};
        });
        checkLikePlain(in -> {
            Tensor copy = in[0].clone();
            return new Tensor[] {torch.sum_out(copy.narrow(0, 1, 1), copy, 0), copy};
        });
    }

    /** The operator is a composite one, which resizes its result without the dispatcher. */
    @Test
    void aResizedResultOfACompositeOperatorIsRefused() {
        assertRefused(
                "it resizes a tensor in an operator that cannot be recorded",
                in -> new Tensor[] {torch.kron_out(zeros(0), in[0], in[0])},
                torch.randn(SHAPE));
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

    @Test
    void aConjugatedResultIsRefused() {
        Tensor x = torch.view_as_complex(torch.randn(3, 3, 2));
        String message =
                Refusal.of(in -> new Tensor[] {torch.linalg_solve_out(in[0].mul(in[0]), in[0], in[0], false)}, x);
        assertTrue(message.contains("conjugates a tensor that it writes to"), message);
    }

    @Test
    void resultsWhoseShapeDependsOnElementsAreRefused() {
        Tensor ids = Tensors.of(new long[] {1, 1, 2}, 3);
        String message = Refusal.of(
                in -> {
                    Tensor unique = in[0].clone();
                    torch.unique_consecutive_out(
                            unique, in[0].clone(), in[0].clone(), in[0], false, false, new LongOptional());
                    return new Tensor[] {unique};
                },
                ids);
        assertTrue(message.contains("the shape of the result of unique_consecutive.out depends on elements"), message);
        assertEquals(3, ids.numel());
    }
}
