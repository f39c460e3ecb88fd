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
 * Attention and its gradients from their formulas, in fp64, with all scores stored.
 *
 * @param exact the results
 * @param terms for each element of a result the sum of the magnitudes that it is a sum of; roundings are in proportion
 *     to it also where the sum itself is small. For L, the largest such sum of a score, and 1
 * @param subnormal what an element is off by, at most, for each unit that rounding takes from or adds to P, dS and the
 *     element itself where these are too small for relative roundings: 1, and the magnitudes that P or dS are
 *     multiplied by
 */
record FlashReference(FlashResult exact, FlashResult terms, FlashResult subnormal) {
    /** Subnormal fp16 numbers are twice this far apart. */
    private static final double SUBNORMAL_ROUNDING_OF_FP16 = 0x1p-25;

    /** @param inputs of any type; what they hold counts as exact */
    static FlashReference of(FlashInputs inputs, boolean causal) {
        FlashInputs x = inputs.to(DType.FLOAT64);
        FlashInputs abs = x.each(Tensor::abs);
        Scalar scale = new Scalar(1 / Math.sqrt(x.q().size(-1)));

        Tensor s = hide(timesTransposed(x.q(), x.k()).mul(scale), Double.NEGATIVE_INFINITY, causal);
        Tensor l = s.logsumexp(-1);
        Tensor p = s.sub(l.unsqueeze(-1)).exp();
        Tensor o = p.matmul(x.v());
        Tensor dS = p.mul(timesTransposed(x.dO(), x.v()).sub(rowSums(x.dO().mul(o))));
        FlashResult exact = new FlashResult(
                o, l, dS.matmul(x.k()).mul(scale), transposedTimes(dS, x.q()).mul(scale), transposedTimes(p, x.dO()));

        Tensor sTerms = hide(timesTransposed(abs.q(), abs.k()).mul(scale), 0, causal);
        Tensor oTerms = p.matmul(abs.v());
        Tensor dSTerms =
                p.mul(timesTransposed(abs.dO(), abs.v()).add(rowSums(abs.dO().mul(oTerms))));
        FlashResult terms = new FlashResult(
                oTerms,
                sTerms.amax(new long[] {-1}, false).add(new Scalar(1)),
                dSTerms.matmul(abs.k()).mul(scale),
                transposedTimes(dSTerms, abs.q()).mul(scale),
                transposedTimes(p, abs.dO()));
        Tensor one = torch.ones_like(l);
        FlashResult subnormal = new FlashResult(
                onePlusColumnSums(abs.v()),
                one,
                onePlusColumnSums(abs.k().mul(scale)),
                onePlusColumnSums(abs.q().mul(scale)),
                onePlusColumnSums(abs.dO()));
        return new FlashReference(exact, terms, subnormal);
    }

    private static Tensor hide(Tensor scores, double value, boolean causal) {
        if (!causal) return scores;
        Tensor hidden = torch.ones_like(scores).triu(1).gt(new Scalar(0));
        return scores.masked_fill(hidden, new Scalar(value));
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
     * Asserts that results are as near as their type and the form's products allow: each element within a few roundings
     * of its terms, and, where enough is averaged for cancellation not to count, all together within one rounding of
     * the result.
     */
    void assertNear(TestedVariant form, DType type, FlashResult actual, String what) {
        assertElementsNear(form, type, actual, 0, what);
        if (fewest() < 63) return;
        for (int i = 0; i < FlashResult.NAMES.size(); i++) {
            double allowed = unit(form, type, i);
            double error = relative(exact.tensors().get(i), actual.tensors().get(i));
            assertTrue(
                    error <= allowed,
                    name(i, form, type, what) + ": off by " + error + " of its norm; allowed: " + allowed);
        }
    }

    /**
     * Asserts that each element is within a few roundings of its terms.
     *
     * @param further relative error of probabilities beside it, for scores so large that their own roundings count
     */
    void assertElementsNear(TestedVariant form, DType type, FlashResult actual, double further, String what) {
        double rounding = type == DType.FLOAT16 ? SUBNORMAL_ROUNDING_OF_FP16 : 1e-30;
        for (int i = 0; i < FlashResult.NAMES.size(); i++) {
            try (var scope = MemoryScope.open()) {
                Tensor expected = exact.tensors().get(i);
                Tensor result = actual.tensors().get(i);
                assertArrayEquals(Tensors.shape(expected), Tensors.shape(result), name(i, form, type, what));
                Tensor error =
                        result.to(DType.FLOAT64.scalarType()).sub(expected).abs();
                Tensor allowed = terms.tensors()
                        .get(i)
                        .mul(new Scalar(4 * unit(form, type, i) + further))
                        .add(subnormal.tensors().get(i).mul(new Scalar(rounding)));
                double worst = number(error.div(allowed).max());
                assertTrue(
                        worst <= 1,
                        name(i, form, type, what) + ": an element is off by " + worst + " times what is allowed");
            }
        }
    }

    private static String name(int i, TestedVariant form, DType type, String what) {
        return FlashResult.NAMES.get(i) + " of " + form + " in " + type + ", " + what;
    }

    /** One rounding of a result. L, the second one, stays in fp32. */
    private double unit(TestedVariant form, DType type, int i) {
        double sums =
                TestedVariant.ofSums(Math.max(exact.o().size(-2), exact.dK().size(-2)));
        return sums + (i == 1 ? form.products().of(type) : form.rounding(type));
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
