package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Attention and its gradients computed from their formulas in fp64, with all scores stored.
 *
 * @param exact the results
 * @param terms for each element of a result, the sum of the magnitudes of its terms, to which rounding errors are
 *     proportional even if the sum cancels; for L, 1 plus the largest such sum of a score
 * @param subnormal for each element, the error per unit of absolute rounding error of P, dS and the element itself,
 *     which applies to subnormal numbers: 1 plus the magnitudes that P or dS are multiplied by
 */
record FlashReference(FlashResult exact, FlashResult terms, FlashResult subnormal) {
    /** Half the spacing of subnormal fp16 numbers. */
    private static final double SUBNORMAL_ROUNDING_OF_FP16 = 0x1p-25;

    /** @param inputs inputs of any dtype, whose values count as exact */
    static FlashReference of(FlashInputs inputs, boolean causal) {
        FlashInputs x = inputs.to(DType.FLOAT64);
        FlashInputs abs = x.each(Tensor::abs);
        var scale = new Scalar(1 / Math.sqrt(x.q().size(-1)));

        Tensor s = mask(timesTransposed(x.q(), x.k()).mul(scale), Double.NEGATIVE_INFINITY, causal);
        Tensor l = s.logsumexp(-1);
        Tensor p = s.sub(l.unsqueeze(-1)).exp();
        Tensor o = p.matmul(x.v());
        Tensor dS = p.mul(timesTransposed(x.dO(), x.v()).sub(rowSums(x.dO().mul(o))));
        var exact = new FlashResult(
                o, l, dS.matmul(x.k()).mul(scale), transposedTimes(dS, x.q()).mul(scale), transposedTimes(p, x.dO()));

        Tensor sTerms = mask(timesTransposed(abs.q(), abs.k()).mul(scale), 0, causal);
        Tensor oTerms = p.matmul(abs.v());
        Tensor dSTerms =
                p.mul(timesTransposed(abs.dO(), abs.v()).add(rowSums(abs.dO().mul(oTerms))));
        var terms = new FlashResult(
                oTerms,
                sTerms.amax(new long[] {-1}, false).add(new Scalar(1)),
                dSTerms.matmul(abs.k()).mul(scale),
                transposedTimes(dSTerms, abs.q()).mul(scale),
                transposedTimes(p, abs.dO()));
        Tensor one = torch.ones_like(l);
        var subnormal = new FlashResult(
                onePlusColumnSums(abs.v()),
                one,
                onePlusColumnSums(abs.k().mul(scale)),
                onePlusColumnSums(abs.q().mul(scale)),
                onePlusColumnSums(abs.dO()));
        return new FlashReference(exact, terms, subnormal);
    }

    private static Tensor mask(Tensor scores, double value, boolean causal) {
        if (!causal) {
            return scores;
        }
        Tensor masked = torch.ones_like(scores).triu(1).gt(new Scalar(0));
        return scores.masked_fill(masked, new Scalar(value));
    }

    private static Tensor timesTransposed(Tensor a, Tensor b) {
        return a.matmul(b.transpose(-2, -1));
    }

    private static Tensor transposedTimes(Tensor a, Tensor b) {
        return a.transpose(-2, -1).matmul(b);
    }

    private static Tensor onePlusColumnSums(Tensor x) {
        return x.sum(new long[] {-2}, true, new ScalarTypeOptional()).add(new Scalar(1));
    }

    private static Tensor rowSums(Tensor x) {
        return x.sum(new long[] {-1}, true, new ScalarTypeOptional());
    }

    /**
     * Asserts that results are as close as their dtype and the precision of matrix multiplications allow: each element
     * within a few rounding errors of its terms and, with enough queries and keys for cancellation to average out, the
     * norm of the error within one rounding error of the result.
     */
    void assertClose(TestedVariant tested, DType type, FlashResult actual, String what) {
        assertElementsClose(tested, type, actual, 0, what);
        if (fewest() < 63) {
            return;
        }
        for (int i = 0; i < FlashResult.NAMES.size(); i++) {
            double allowed = unit(tested, type, i);
            double error = relative(exact.tensors().get(i), actual.tensors().get(i));
            assertTrue(
                    error <= allowed,
                    name(i, tested, type, what) + ": off by " + error + " of its norm; allowed: " + allowed);
        }
    }

    /**
     * Asserts that each element is within a few rounding errors of its terms.
     *
     * @param further additional relative error of probabilities, for scores so large that their own rounding counts
     */
    void assertElementsClose(TestedVariant tested, DType type, FlashResult actual, double further, String what) {
        double rounding = type == DType.FLOAT16 ? SUBNORMAL_ROUNDING_OF_FP16 : 1e-30;
        for (int i = 0; i < FlashResult.NAMES.size(); i++) {
            try (var scope = MemoryScope.open()) {
                Tensor expected = exact.tensors().get(i);
                Tensor result = actual.tensors().get(i);
                assertArrayEquals(Tensors.shape(expected), Tensors.shape(result), name(i, tested, type, what));
                Tensor error =
                        result.to(DType.FLOAT64.scalarType()).sub(expected).abs();
                Tensor allowed = terms.tensors()
                        .get(i)
                        .mul(new Scalar(4 * unit(tested, type, i) + further))
                        .add(subnormal.tensors().get(i).mul(new Scalar(rounding)));
                double worst = number(error.div(allowed).max());
                assertTrue(
                        worst <= 1,
                        name(i, tested, type, what) + ": an element is off by " + worst + " times what is allowed");
            }
        }
    }

    private static String name(int i, TestedVariant tested, DType type, String what) {
        return FlashResult.NAMES.get(i) + " of " + tested + " in " + type + ", " + what;
    }

    /** Returns one relative rounding error of result i. L, with index 1, stays in fp32. */
    private double unit(TestedVariant tested, DType type, int i) {
        double sums =
                TestedVariant.sumError(Math.max(exact.o().size(-2), exact.dK().size(-2)));
        return sums + (i == 1 ? tested.precision().of(type) : tested.rounding(type));
    }

    private long fewest() {
        return Math.min(exact.o().size(-2), exact.dK().size(-2));
    }

    /** ‖actual − expected‖ / ‖expected‖. */
    static double relative(Tensor expected, Tensor actual) {
        try (var scope = MemoryScope.open()) {
            Tensor error = actual.to(DType.FLOAT64.scalarType()).sub(expected);
            return number(error.norm()) / number(expected.norm());
        }
    }

    static double number(Tensor scalar) {
        return Tensors.toDoubles(scalar)[0];
    }
}
