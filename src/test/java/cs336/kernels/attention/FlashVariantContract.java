package cs336.kernels.attention;

import static cs336.kernels.attention.FlashReference.number;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Attention;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Properties of every variant of {@link FlashAttention}, tested for each dtype that it supports. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class FlashVariantContract extends ScopedTest {
    private static final boolean[] MASKS = {false, true};

    /** The numbers of batches, heads, queries and keys. */
    record Shape(int b, int h, int t, int s) {
        static Shape of(int t, int s) {
            return t * s <= 512 * 512 ? new Shape(2, 3, t, s) : new Shape(1, 1, t, s);
        }

        long[] queries(int d) {
            return new long[] {b, h, t, d};
        }

        long[] keys(int d) {
            return new long[] {b, h, s, d};
        }
    }

    private final Device device;
    private final List<TestedVariant> variants;

    FlashVariantContract(Device device, List<TestedVariant> variants) {
        this.device = device;
        this.variants = variants;
    }

    /** Returns shapes with lengths around tile sizes, and others. */
    abstract List<Shape> shapes();

    /** Returns a shape with more blocks than run concurrently. */
    abstract Shape large();

    /** Returns the head dimensions to test. */
    abstract int[] widths();

    @BeforeEach
    void open() {
        Torch.allowTf32(false); // references need full fp32
    }

    @AfterEach
    void close() {
        device.synchronize();
    }

    List<TestedVariant> variants() {
        return variants;
    }

    Stream<Arguments> variantsAndTypes() {
        return variants.stream()
                .flatMap(tested -> tested.types().stream().sorted().map(type -> Arguments.of(tested, type)));
    }

    Stream<Arguments> variantsAndTypesWithRangeOfFp32() {
        return variantsAndTypes().filter(arguments -> arguments.get()[1] != DType.FLOAT16);
    }

    private FlashInputs random(DType type, Shape shape, int d) {
        return FlashInputs.random(device, type, shape.queries(d), shape.keys(d));
    }

    /** Runs a variant after filling memory with NaN, so that elements it does not write show. */
    private FlashResult run(TestedVariant tested, FlashInputs x, boolean causal) {
        List<Tensor> poisoned = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            for (Tensor like : List.of(x.q(), x.k())) {
                poisoned.add(nan(like, DType.of(like)));
                poisoned.add(nan(like, DType.FLOAT32));
            }
            poisoned.add(nan(x.q().select(-1, 0), DType.FLOAT32));
        }
        poisoned.forEach(Tensor::close);
        return FlashResult.of(tested.variant(), x, causal);
    }

    private Tensor nan(Tensor like, DType type) {
        return torch.full(Tensors.shape(like), new Scalar(Double.NaN), device.options(type));
    }

    private void assertRight(TestedVariant tested, DType type, FlashInputs x, String what) {
        for (boolean causal : MASKS) {
            try (var each = MemoryScope.open()) {
                String which = what + (causal ? ", causal" : "");
                FlashReference.of(x, causal).assertClose(tested, type, run(tested, x, causal), which);
            }
        }
    }

    private static void assertSameBits(TestedVariant tested, FlashResult expected, FlashResult actual, String what) {
        for (int i = 0; i < FlashResult.NAMES.size(); i++) {
            String name = FlashResult.NAMES.get(i);
            boolean same = expected.tensors().get(i).equal(actual.tensors().get(i));
            assertTrue(same || name.equals("dQ") && !tested.dQRepeats(), name + " of " + tested + ", " + what);
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void everyShapeIsAsCloseToFp64AsTheTypeAllows(TestedVariant tested, DType type) {
        for (int d : widths()) {
            for (Shape shape : shapes()) {
                try (var each = MemoryScope.open()) {
                    assertRight(tested, type, random(type, shape, d), shape + ", d " + d);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variants")
    void theCoursesShapePassesThroughAutograd(TestedVariant tested) {
        for (DType type : tested.types()) {
            for (boolean causal : MASKS) {
                FlashInputs x = FlashInputs.random(device, type, new long[] {4, 128, 64}, new long[] {4, 128, 64});
                FlashInputs leaves = x.each(tensor -> tensor.detach().set_requires_grad(true));
                Tensor o = Attention.named(tested.name()).apply(leaves.q(), leaves.k(), leaves.v(), causal);
                Backward.of(o).with(x.dO()).run();
                FlashResult exact = FlashReference.of(x, causal).exact();
                for (Tensor[] pair : new Tensor[][] {
                    {exact.o(), o},
                    {exact.dQ(), leaves.q().grad()},
                    {exact.dK(), leaves.k().grad()},
                    {exact.dV(), leaves.v().grad()}
                }) {
                    assertEquals(type, DType.of(pair[1]));
                    assertTrue(pair[1].to(DType.FLOAT64.scalarType()).allclose(pair[0], 1e-2, 1e-2, false));
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void lIsOneFp32NumberPerQuery(TestedVariant tested, DType type) {
        FlashInputs heads = random(type, new Shape(2, 3, 20, 30), 16);
        FlashVariant.AttentionOutput output = tested.variant().forward(heads.q(), heads.k(), heads.v(), false);
        assertEquals(DType.FLOAT32, DType.of(output.l()));
        assertEquals(List.of(2L, 3L, 20L), list(output.l()));
        assertEquals(type, DType.of(output.o()));
        FlashInputs one = heads.each(x -> x.select(1, 0));
        FlashVariant.AttentionOutput ofOne = tested.variant().forward(one.q(), one.k(), one.v(), false);
        assertEquals(List.of(2L, 20L), list(ofOne.l()));
        assertEquals(List.of(2L, 20L, 16L), list(ofOne.o()));
        assertTrue(ofOne.o().equal(output.o().select(1, 0)), "a single head gives the same bits");
    }

    private static List<Long> list(Tensor x) {
        return Arrays.stream(Tensors.shape(x)).boxed().toList();
    }

    /** The same numbers in other layouts. */
    private static final Map<String, UnaryOperator<Tensor>> LAYOUTS = Map.of(
            "heads between batch and rows",
            x -> x.transpose(1, 2).contiguous().transpose(1, 2),
            "part of a wider matrix",
            x -> torch.cat(new TensorVector(x, x, x), 3).narrow(3, x.size(3), x.size(3)),
            "rows of odd length from an odd address",
            x -> torch.cat(new TensorVector(x.narrow(3, 0, 1), x), 3).narrow(3, 1, x.size(3)),
            "columns as rows",
            x -> x.transpose(2, 3).contiguous().transpose(2, 3));

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void stridesAndAddressesDoNotMatter(TestedVariant tested, DType type) {
        for (int d : new int[] {16, 64}) {
            FlashInputs dense = random(type, new Shape(2, 3, 70, 90), d);
            LAYOUTS.forEach((what, layout) -> {
                FlashInputs other = dense.each(layout);
                assertTrue(other.k().equal(dense.k()) && !other.k().is_contiguous(), what);
                assertRight(tested, type, other, what);
            });
            var expanded = new FlashInputs(
                    dense.q(),
                    dense.k().narrow(1, 0, 1).expand(2, 3, 90, d),
                    dense.v().narrow(1, 0, 1).expand(2, 3, 90, d),
                    dense.dO().narrow(2, 0, 1).narrow(3, 0, 1).expand(2, 3, 70, d));
            assertRight(tested, type, expanded, "one key for all heads, one gradient for all of a head");
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void repeatsBitForBit(TestedVariant tested, DType type) {
        int runs = device.isCuda() ? 200 : 10; // races show only now and then
        for (Shape shape : List.of(large(), new Shape(1, 1, large().t(), large().s()))) {
            for (int d : new int[] {64, 128}) {
                FlashInputs x = random(type, shape, d);
                FlashResult first = run(tested, x, true);
                for (int i = 1; i < runs; i++) {
                    try (var each = MemoryScope.open()) {
                        assertSameBits(
                                tested, first, FlashResult.of(tested.variant(), x, true), "d " + d + ", run " + i);
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void scoresOfTenThousandNeitherOverflowNorVanish(TestedVariant tested, DType type) {
        int d = 64;
        for (double score : new double[] {1e4, -1e4}) {
            // q·k / 8 is about the score at every key, with small differences. Eight bits hold each number.
            FlashInputs random = random(DType.BFLOAT16, new Shape(1, 2, 150, 200), d);
            Tensor q = torch.full_like(random.q(), new Scalar(128));
            Tensor k = random.k().mul(new Scalar(0.03)).add(new Scalar(score / 1024));
            var x = new FlashInputs(q, k, random.v(), random.dO()).to(type);
            for (boolean causal : MASKS) {
                // The rounding error of a score, a sum of 64 numbers up to 1e4, is a few times 1e4 · 2⁻²³.
                FlashReference.of(x, causal)
                        .assertElementsClose(tested, type, run(tested, x, causal), 2e-2, "scores of " + score);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void growingScoresRaiseTheMaximumAtEveryTile(TestedVariant tested, DType type) {
        int s = large().s();
        FlashInputs random = random(DType.BFLOAT16, new Shape(1, 2, s, s), 64);
        for (double slope : new double[] {0.5, -0.5, 0.02}) { // of the scores, per key
            Tensor ramp = torch.arange(new Scalar(0), new Scalar(s), device.options(DType.FLOAT64))
                    .mul(new Scalar(slope / 8))
                    .unsqueeze(-1);
            Tensor k = random.k().mul(new Scalar(0.1)).add(ramp);
            var x = new FlashInputs(torch.ones_like(random.q()), k, random.v(), random.dO())
                    .to(DType.BFLOAT16)
                    .to(type);
            for (boolean causal : MASKS) {
                FlashReference.of(x, causal)
                        .assertElementsClose(tested, type, run(tested, x, causal), 1e-3, "scores grow by " + slope);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void oneKeyThatOutweighsAllOthersIsCopied(TestedVariant tested, DType type) {
        FlashInputs x = random(type, new Shape(1, 2, 70, 300), 16);
        x.q().fill_(new Scalar(1e3));
        x.k().fill_(new Scalar(-30));
        for (int key : new int[] {0, 200, 299}) {
            Tensor k = x.k().clone();
            k.select(2, key).fill_(new Scalar(30)); // scores of −120,000 elsewhere, 120,000 here
            Tensor copied = x.v().narrow(2, key, 1);
            Tensor o = tested.variant().forward(x.q(), k, x.v(), false).o();
            double allowed = 2 * tested.rounding(type) + TestedVariant.sumError(1);
            double error = number(o.sub(copied)
                    .div(copied)
                    .abs()
                    .to(DType.FLOAT64.scalarType())
                    .max());
            assertTrue(error <= allowed, tested + " in " + type + ", key " + key + ": " + error);
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypesWithRangeOfFp32")
    void aQueryWhoseScoresOverflowGetsZeroAndContributesNoGradient(TestedVariant tested, DType type) {
        queryWithoutKeys(tested, type, -3e38);
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void aQueryOfMinusInfinityGetsZeroAndContributesNoGradient(TestedVariant tested, DType type) {
        queryWithoutKeys(tested, type, Double.NEGATIVE_INFINITY);
    }

    /** Sets all elements of a query to a value with which its scores are −∞. */
    private void queryWithoutKeys(TestedVariant tested, DType type, double value) {
        FlashInputs without = random(type, new Shape(1, 2, 100, 130), 64);
        without.k().abs_().add_(new Scalar(2));
        int query = 77;
        var with = new FlashInputs(
                without.q().clone(), without.k(), without.v(), without.dO().clone());
        with.q().select(2, query).fill_(new Scalar(value));
        without.dO().select(2, query).fill_(new Scalar(0)); // so that it contributes no gradient
        for (boolean causal : MASKS) {
            FlashResult result = run(tested, with, causal);
            assertEquals(0, number(result.o().select(2, query).abs().max()), "o");
            assertEquals(0, number(result.dQ().select(2, query).abs().max()), "dQ");
            assertEquals(
                    Double.NEGATIVE_INFINITY, number(result.l().select(2, query).max()), "L");
            FlashReference others = FlashReference.of(without, causal);
            result.o().select(2, query).copy_(others.exact().o().select(2, query));
            result.l().select(2, query).copy_(others.exact().l().select(2, query));
            others.assertElementsClose(tested, type, result, 0, "the others");
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void nanStaysInItsQueryAndItsHead(TestedVariant tested, DType type) {
        FlashInputs clean = random(type, new Shape(1, 3, 100, 130), 64);
        int query = 50;
        var dirty = new FlashInputs(clean.q().clone(), clean.k(), clean.v(), clean.dO());
        dirty.q().select(1, 1).select(1, query).narrow(1, 3, 1).fill_(new Scalar(Double.NaN)); // of head 1
        for (boolean causal : MASKS) {
            FlashResult expected = run(tested, clean, causal);
            FlashResult result = run(tested, dirty, causal);
            for (Tensor x : List.of(result.o(), result.l(), result.dQ())) {
                assertTrue(allNaN(x.select(1, 1).select(1, query)), "its own results");
            }
            for (Tensor x : List.of(result.dK(), result.dV())) {
                assertTrue(allNaN(x.select(1, 1).narrow(1, 0, causal ? query + 1 : 130)), "of keys that it attends to");
                assertTrue(!anyNaN(x.select(1, 0)) && !anyNaN(x.select(1, 2)), "of other heads");
            }
            // All other results are as before.
            for (int i = 0; i < 3; i++) {
                Tensor now = result.tensors().get(i);
                now.select(1, 1)
                        .select(1, query)
                        .copy_(expected.tensors().get(i).select(1, 1).select(1, query));
            }
            for (int i = 3; i < 5; i++) {
                result.tensors()
                        .get(i)
                        .select(1, 1)
                        .copy_(expected.tensors().get(i).select(1, 1));
            }
            FlashReference.of(clean, causal).assertClose(tested, type, result, "the others");

            // A NaN key does not affect queries that do not attend to it.
            var later = new FlashInputs(clean.q(), clean.k().clone(), clean.v(), clean.dO());
            later.k().select(2, query).fill_(new Scalar(Double.NaN));
            FlashVariant.AttentionOutput output = tested.variant().forward(later.q(), later.k(), later.v(), causal);
            int firstAttending = causal ? query : 0;
            for (Tensor x : List.of(output.o(), output.l())) {
                assertTrue(!causal || !anyNaN(x.narrow(2, 0, query)), "queries before a NaN key");
                assertTrue(allNaN(x.narrow(2, firstAttending, 100 - firstAttending)), "queries from a NaN key on");
            }
        }
    }

    private static boolean allNaN(Tensor x) {
        return x.isnan().all().item_bool();
    }

    private static boolean anyNaN(Tensor x) {
        return x.isnan().any().item_bool();
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void keysThatNoQueryAttendsToHaveZeroGradients(TestedVariant tested, DType type) {
        for (Shape shape : List.of(new Shape(2, 2, 10, 30), new Shape(1, 2, 65, 300), new Shape(1, 1, 64, 1000))) {
            for (int d : new int[] {16, 64, 128}) {
                FlashResult result = run(tested, random(type, shape, d), true);
                for (Tensor x : List.of(result.dK(), result.dV())) {
                    Tensor unattended = x.narrow(2, shape.t(), shape.s() - shape.t());
                    assertEquals(0, number(unattended.abs().max()), tested + " in " + type + ", " + shape + ", d " + d);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void aModelGetsTheSameGradientsAsWithPlainAttention(TestedVariant tested, DType type) {
        for (ModelEdition edition : ModelEdition.values()) {
            List<double[]> exact = gradients(edition, "plain", DType.FLOAT64);
            double plain = distance(exact, gradients(edition, "plain", type));
            double flash = distance(exact, gradients(edition, tested.name(), type));
            // Attention's rounding errors are a small part of those of the whole model.
            double allowed = 1.2 * plain + tested.precision().of(type);
            assertTrue(flash <= allowed, tested + " in " + type + ": " + flash + "; plain attention: " + plain);
        }
    }

    /** Returns the distance of all gradients, relative to their norm. */
    private static double distance(List<double[]> exact, List<double[]> actual) {
        double squares = 0;
        double norm = 0;
        assertEquals(exact.size(), actual.size());
        for (int i = 0; i < exact.size(); i++) {
            for (int j = 0; j < exact.get(i).length; j++) {
                squares += Math.pow(actual.get(i)[j] - exact.get(i)[j], 2);
                norm += Math.pow(exact.get(i)[j], 2);
            }
        }
        return Math.sqrt(squares / norm);
    }

    /** Returns the gradients of all parameters of a small model with fixed weights: fp64, fp32 or autocast. */
    private List<double[]> gradients(ModelEdition edition, String attention, DType type) {
        TransformerConfig config = TransformerConfig.builder()
                .edition(edition)
                .vocabSize(50)
                .contextLength(150)
                .dModel(64)
                .numLayers(2)
                .numHeads(2)
                .dFf(128)
                .attention(attention)
                .build();
        boolean wide = type == DType.FLOAT64;
        try (var each = MemoryScope.open();
                var model = new TransformerLM(config, device, wide ? type : DType.FLOAT32)) {
            initializeWeights(model);
            long[] tokens = new long[2 * 151];
            Arrays.setAll(tokens, i -> (long) i * i % 47);
            Tensor ids = Tensors.of(tokens, 2, 151).to(device.toTorch(), DType.INT64.scalarType());
            Tensor loss;
            try (var autocast = Autocast.of(device, wide ? DType.FLOAT32 : type)) {
                loss = Losses.crossEntropy(model.forward(ids.narrow(1, 0, 150)), ids.narrow(1, 1, 150));
            }
            loss.backward();
            return model.parameters().stream()
                    .map(parameter -> Tensors.toDoubles(parameter.grad()))
                    .toList();
        }
    }

    private void initializeWeights(TransformerLM model) {
        Torch.seed(1);
        try (var noGrad = NoGrad.open()) {
            for (Tensor parameter : model.parameters()) {
                double std = parameter.dim() == 2 ? 1 / Math.sqrt(parameter.size(1)) : 0.5;
                parameter.copy_(torch.randn(Tensors.shape(parameter), device.options(DType.FLOAT32))
                        .mul(new Scalar(std)));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("variants")
    void unsupportedInputsAreRejectedBeforeAnyNativeCall(TestedVariant tested) {
        if (tested.variant() instanceof TiledFlash) {
            return; // supports everything
        }
        FlashInputs cpu =
                FlashInputs.random(Device.cpu(), DType.BFLOAT16, new long[] {1, 9, 16}, new long[] {1, 9, 16});
        assertRejected(tested, cpu, "cpu");
        assertRejected(tested, cpu.to(DType.FLOAT64), "fp64");
        assertRejected(tested, random(tested.types().iterator().next(), new Shape(1, 1, 9, 9), 136), "136");
    }

    @ParameterizedTest
    @MethodSource("variants")
    void keysAndValuesThatDoNotMatchAreRejected(TestedVariant tested) {
        FlashInputs x = random(tested.types().iterator().next(), new Shape(1, 2, 100, 130), 64);
        Tensor fewer = x.v().narrow(-2, 0, 70);
        for (Tensor[] kv : new Tensor[][] {{x.k(), fewer}, {x.k(), x.v().to(ScalarType.Double)}}) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> tested.variant().forward(x.q(), kv[0], kv[1], false),
                    tested.toString());
        }
    }

    private static void assertRejected(TestedVariant tested, FlashInputs x, String named) {
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> tested.variant().forward(x.q(), x.k(), x.v(), false),
                        tested.toString())
                .getMessage();
        assertTrue(message.startsWith("q must ") && message.contains(named), message);
    }
}
