package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Attention;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.PlainAttention;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.MemoryGrowth;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.GradCheck;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class FlashAttentionTest {
    private static final Device DEVICE = Device.best();
    private static final long MIB = 1 << 20;

    /** Output and gradients as doubles: o, dQ, dK, dV. */
    private record AttentionDoubles(double[] o, double[] dQ, double[] dK, double[] dV) {
        double[][] all() {
            return new double[][] {o, dQ, dK, dV};
        }
    }

    /** Queries, keys, values and the gradient of the output, from a fixed seed. */
    private record AttentionInputs(Tensor q, Tensor k, Tensor v, Tensor dO) {
        static AttentionInputs random(DType dtype, long[] queries, long[] keys) {
            Torch.seed(336);
            return new AttentionInputs(randn(queries), randn(keys), randn(keys), randn(queries)).to(dtype);
        }

        static AttentionInputs random(DType dtype, long batch, long t, long s, long d) {
            return random(dtype, new long[] {batch, t, d}, new long[] {batch, s, d});
        }

        private static Tensor randn(long[] shape) {
            return torch.randn(shape, DEVICE.options(DType.FLOAT64));
        }

        AttentionInputs to(DType dtype) {
            return new AttentionInputs(cast(q, dtype), cast(k, dtype), cast(v, dtype), cast(dO, dtype));
        }

        private static Tensor cast(Tensor x, DType dtype) {
            return x.to(dtype.scalarType());
        }

        AttentionDoubles attend(Attention attention, boolean causal) {
            try (var scope = MemoryScope.open()) {
                Tensor[] leaves = {leaf(q), leaf(k), leaf(v)};
                Tensor o = attention.apply(leaves[0], leaves[1], leaves[2], causal);
                Backward.of(o).with(dO).run();
                return new AttentionDoubles(
                        Tensors.toDoubles(o),
                        Tensors.toDoubles(leaves[0].grad()),
                        Tensors.toDoubles(leaves[1].grad()),
                        Tensors.toDoubles(leaves[2].grad()));
            }
        }

        private static Tensor leaf(Tensor x) {
            return x.detach().set_requires_grad(true);
        }
    }

    private static Attention flash(int queryTile, int keyTile) {
        return new Attention() {
            @Override
            public String name() {
                return "flash";
            }

            @Override
            public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
                return FlashAttention.apply(q, k, v, causal, new TiledFlash(queryTile, keyTile));
            }
        };
    }

    /** Returns the results of plain attention in fp64. */
    private static AttentionDoubles exact(AttentionInputs inputs, boolean causal) {
        return inputs.to(DType.FLOAT64).attend(new PlainAttention(), causal);
    }

    /** Returns the largest difference relative to the largest expected value, or to 1 if that is smaller. */
    private static double error(double[] expected, double[] actual) {
        assertEquals(expected.length, actual.length);
        double scale = Arrays.stream(expected).map(Math::abs).reduce(1, Math::max);
        double worst = 0;
        for (int i = 0; i < expected.length; i++) {
            double difference = Math.abs(expected[i] - actual[i]);
            worst = difference <= worst ? worst : difference; // keeps NaN
        }
        return worst / scale;
    }

    private static void assertClose(AttentionDoubles expected, AttentionDoubles actual, double bound) {
        String[] names = {"o", "dQ", "dK", "dV"};
        for (int i = 0; i < names.length; i++) {
            double error = error(expected.all()[i], actual.all()[i]);
            assertTrue(error <= bound, names[i] + " is off by " + error + " of its scale; allowed: " + bound);
        }
    }

    private static double ulps(int n) {
        return n * 0x1p-23;
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theCoursesShapeIsFarMoreAccurateThanTheCourseRequires(boolean causal) {
        double bound = ulps(12); // a sum of 128 terms has about √128 roundings; their order depends on the CPU
        try (var scope = MemoryScope.open()) {
            AttentionInputs inputs = AttentionInputs.random(DType.FLOAT32, 4, 128, 128, 64);
            assertClose(exact(inputs, causal), inputs.attend(new FlashAttentions.Fastest(), causal), bound);
            assertClose(exact(inputs, causal), inputs.attend(flash(16, 32), causal), bound);
        }
    }

    /** Batch, queries, keys, d, query tile, key tile. */
    @ParameterizedTest
    @CsvSource({
        "1, 1, 1, 1, 16, 16", // a single score
        "2, 1, 7, 16, 16, 16", // one query
        "2, 7, 1, 16, 16, 16", // one key
        "1, 64, 64, 16, 16, 16", // whole tiles
        "3, 65, 65, 32, 16, 16", // one row more
        "2, 63, 63, 32, 16, 32", // one row less
        "2, 100, 100, 128, 32, 16", // tiles that are not square
        "1, 50, 130, 64, 16, 48", // more keys than queries
        "1, 130, 50, 64, 48, 16", // more queries than keys
        "1, 33, 97, 80, 32, 1", // tiles of a single key
        "1, 97, 33, 20, 1, 32", // tiles of a single query
        "2, 40, 40, 3, 256, 256", // one tile for all
        "1, 300, 513, 24, 256, 256", // the default tiles
    })
    void fp64AgreesWithPlainAttentionAtEveryShape(int b, int t, int s, int d, int queryTile, int keyTile) {
        for (boolean causal : new boolean[] {false, true}) {
            try (var scope = MemoryScope.open()) {
                AttentionInputs inputs = AttentionInputs.random(DType.FLOAT64, b, t, s, d);
                assertClose(exact(inputs, causal), inputs.attend(flash(queryTile, keyTile), causal), 2e-14);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void headsAreSeparate(boolean causal) {
        try (var scope = MemoryScope.open()) {
            AttentionInputs inputs =
                    AttentionInputs.random(DType.FLOAT64, new long[] {2, 3, 37, 8}, new long[] {2, 3, 41, 8});
            assertClose(exact(inputs, causal), inputs.attend(flash(16, 16), causal), 2e-14);
            Tensor o = FlashAttention.apply(inputs.q, inputs.k, inputs.v, causal);
            assertArrayEquals(new long[] {2, 3, 37, 8}, Tensors.shape(o));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void gradientsMatchFiniteDifferences(boolean causal) {
        try (var scope = MemoryScope.open()) {
            AttentionInputs inputs = AttentionInputs.random(DType.FLOAT64, 2, 5, 6, 3);
            GradCheck.check(
                    qkv -> new Tensor[] {FlashAttention.apply(qkv[0], qkv[1], qkv[2], causal, new TiledFlash(2, 4))},
                    inputs.q,
                    inputs.k,
                    inputs.v);
        }
    }

    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void aModelGetsTheSameGradientsAsWithPlainAttention(ModelEdition edition) {
        List<double[]> plain = gradients(edition, "plain");
        for (String name : List.of("flash", "sdpa")) {
            List<double[]> other = gradients(edition, name);
            assertEquals(plain.size(), other.size());
            for (int i = 0; i < plain.size(); i++) {
                double error = error(plain.get(i), other.get(i));
                assertTrue(error <= 1e-12, name + ", parameter " + i + ": " + error);
            }
        }
    }

    /** Returns the gradients of all parameters of a tiny model in fp64. */
    private static List<double[]> gradients(ModelEdition edition, String attention) {
        TransformerConfig config = TransformerConfig.builder()
                .edition(edition)
                .vocabSize(50)
                .contextLength(40)
                .dModel(32)
                .numLayers(2)
                .numHeads(4)
                .dFf(64)
                .attention(attention)
                .build();
        Torch.seed(1);
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, DEVICE, DType.FLOAT64)) {
            long[] tokens = new long[2 * 41];
            Arrays.setAll(tokens, i -> i * i % 47);
            Tensor ids = Tensors.of(tokens, 2, 41).to(DEVICE.toTorch(), DType.INT64.scalarType());
            Losses.crossEntropy(model.forward(ids.narrow(1, 0, 40)), ids.narrow(1, 1, 40))
                    .backward();
            return model.parameters().stream()
                    .map(parameter -> Tensors.toDoubles(parameter.grad()))
                    .toList();
        }
    }

    @Test
    void autocastCastsInputsAndReturnsGradientsInTheirDtype() {
        try (var scope = MemoryScope.open()) {
            AttentionInputs inputs = AttentionInputs.random(DType.FLOAT32, 2, 20, 20, 8);
            Tensor q = inputs.q.set_requires_grad(true);
            Tensor o;
            try (var autocast = Autocast.of(DEVICE, DType.BFLOAT16)) {
                o = FlashAttention.apply(q, inputs.k, inputs.v.to(DType.BFLOAT16.scalarType()), true);
            }
            assertEquals(DType.BFLOAT16, DType.of(o));
            o.sum().backward();
            assertEquals(DType.FLOAT32, DType.of(q.grad()));
        }
    }

    /** Both passes of causal attention over 4,096 tokens. */
    static final class LongAttention implements MemoryGrowth.Work {
        static final int T = 4096;
        private final Tensor[] qkv = new Tensor[3];

        LongAttention() {
            Arrays.setAll(
                    qkv,
                    i -> torch.randn(new long[] {1, T, 16}, Device.cpu().options(DType.FLOAT32))
                            .set_requires_grad(true));
        }

        @Override
        public void step() {
            try (var scope = MemoryScope.open()) {
                FlashAttention.apply(qkv[0], qkv[1], qkv[2], true).sum().backward();
            }
        }
    }

    @Test
    void noTensorOfTheSizeOfTheScoresExistsAtAnyTime() throws Exception {
        long scores = 4L * LongAttention.T * LongAttention.T;
        long grown = MemoryGrowth.peakOfStep(LongAttention.class);
        assertTrue(
                grown < scores / 4,
                "memory grew by " + grown / MIB + " MiB; one matrix of scores has " + scores / MIB + " MiB");
    }

    @Test
    void theLogSumExpComesWithADifferentiableOutput() {
        try (var scope = MemoryScope.open()) {
            AttentionInputs inputs = AttentionInputs.random(DType.FLOAT64, 2, 7, 9, 4);
            Tensor q = inputs.q.set_requires_grad(true);
            FlashVariant.AttentionOutput both = FlashAttention.applyWithLogSumExp(q, inputs.k, inputs.v, false);
            Tensor scores = q.detach().matmul(inputs.k.transpose(-2, -1)).div(new Scalar(2.0)); // √d
            Tensor expected = torch.logsumexp(scores, -1);
            assertArrayEquals(Tensors.shape(expected), Tensors.shape(both.l()));
            assertTrue(both.l().sub(expected).abs().max().item_double() < 1e-12);
            assertFalse(both.l().requires_grad());
            Tensor o = FlashAttention.apply(q, inputs.k, inputs.v, false);
            assertTrue(torch.equal(o, both.o()));
            Tensor dQ = Backward.of(both.o()).with(inputs.dO).gradients(q)[0];
            assertTrue(torch.equal(Backward.of(o).with(inputs.dO).gradients(q)[0], dQ));
        }
    }

    @Test
    void withoutGradientsNoGraphIsRecorded() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            AttentionInputs inputs = AttentionInputs.random(DType.FLOAT32, 1, 8, 8, 4);
            assertTrue(!FlashAttention.apply(inputs.q.set_requires_grad(true), inputs.k, inputs.v, true)
                    .requires_grad());
        }
    }

    @Test
    void aSecondDerivativeIsRejected() {
        try (var scope = MemoryScope.open()) {
            AttentionInputs inputs = AttentionInputs.random(DType.FLOAT64, 1, 4, 4, 2);
            Tensor o = FlashAttention.apply(inputs.q.set_requires_grad(true), inputs.k, inputs.v, true);
            Tensor dQ = Backward.of(o).with(inputs.dO).createGraph().gradients(inputs.q)[0];
            var thrown = assertThrows(
                    RuntimeException.class, () -> Backward.of(dQ.sum()).gradients(inputs.q));
            assertTrue(thrown.getMessage().contains("FlashAttention"), thrown.toString());
        }
    }

    @Test
    void invalidInputsAreNamed() {
        try (var scope = MemoryScope.open()) {
            assertRejected("q must be [B, T, d] or [B, H, T, d], not [4, 8]", ones(4, 8), ones(4, 8), ones(4, 8));
            assertRejected(
                    "k must have the shape of q except for T; q is [2, 4, 8], k is [2, 5, 9]",
                    ones(2, 4, 8),
                    ones(2, 5, 9),
                    ones(2, 5, 9));
            assertRejected(
                    "k must have the shape of q except for T; q is [2, 4, 8], k is [4, 8]",
                    ones(2, 4, 8),
                    ones(4, 8),
                    ones(4, 8));
            assertRejected(
                    "k must have the shape of q except for T; q is [2, 4, 8], k is [3, 4, 8]",
                    ones(2, 4, 8),
                    ones(3, 4, 8),
                    ones(3, 4, 8));
            assertRejected(
                    "v must have the shape of k; k is [2, 5, 8], v is [2, 4, 8]",
                    ones(2, 4, 8),
                    ones(2, 5, 8),
                    ones(2, 4, 8));
            assertRejected(
                    "q and k must not be empty; their shapes are [2, 4, 8] and [2, 0, 8]",
                    ones(2, 4, 8),
                    ones(2, 0, 8),
                    ones(2, 0, 8));
            Tensor integers = ones(2, 4, 8).to(DType.INT64.scalarType());
            assertRejected(
                    "v must be one of [fp64, fp32, bf16, fp16], not int64", ones(2, 4, 8), ones(2, 4, 8), integers);
            assertRejected(
                    "q, k and v must have the same dtype, not fp32, fp32 and bf16",
                    ones(2, 4, 8),
                    ones(2, 4, 8),
                    ones(2, 4, 8).to(DType.BFLOAT16.scalarType()));
        }
        var missing = assertThrows(IllegalArgumentException.class, () -> FlashAttention.apply(null, null, null, false));
        assertEquals("q must be a tensor, not null", missing.getMessage());
        var rows = assertThrows(IllegalArgumentException.class, () -> new TiledFlash(16, 0));
        assertEquals("keyTile must be at least 1, not 0", rows.getMessage());
    }

    private static void assertRejected(String message, Tensor q, Tensor k, Tensor v) {
        var thrown = assertThrows(IllegalArgumentException.class, () -> FlashAttention.apply(q, k, v, false));
        assertEquals(message, thrown.getMessage());
    }

    private static Tensor ones(long... shape) {
        return torch.ones(shape, DEVICE.options(DType.FLOAT32));
    }
}
