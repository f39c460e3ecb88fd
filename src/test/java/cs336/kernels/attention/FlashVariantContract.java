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
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What holds of every form of {@link FlashAttention}, for each type that it takes. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class FlashVariantContract {
    private static final boolean[] MASKS = {false, true};

    /** How many batches, heads, queries and keys. */
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
    private final List<TestedVariant> forms;
    private MemoryScope scope;

    FlashVariantContract(Device device, List<TestedVariant> forms) {
        this.device = device;
        this.forms = forms;
    }

    /** Lengths around those of tiles, and others. */
    abstract List<Shape> shapes();

    /** A shape with more work than the device does at once. */
    abstract Shape busy();

    abstract int[] widths();

    @BeforeEach
    void open() {
        scope = MemoryScope.open();
        Torch.allowTf32(false); // the references must not
    }

    @AfterEach
    void close() {
        device.synchronize();
        scope.close();
    }

    List<TestedVariant> forms() {
        return forms;
    }

    Stream<Arguments> formsAndTypes() {
        return forms.stream().flatMap(form -> form.types().stream().sorted().map(type -> Arguments.of(form, type)));
    }

    Stream<Arguments> formsAndTypesWithRangeOfFp32() {
        return formsAndTypes().filter(arguments -> arguments.get()[1] != DType.FLOAT16);
    }

    private FlashInputs random(DType type, Shape shape, int d) {
        return FlashInputs.random(device, type, shape.queries(d), shape.keys(d));
    }

    /** Runs a form in memory that held NaN before: what it does not write shows. */
    private FlashResult run(TestedVariant form, FlashInputs x, boolean causal) {
        List<Tensor> poisoned = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            for (Tensor like : List.of(x.q(), x.k())) {
                poisoned.add(nan(like, DType.of(like)));
                poisoned.add(nan(like, DType.FLOAT32));
            }
            poisoned.add(nan(x.q().select(-1, 0), DType.FLOAT32));
        }
        poisoned.forEach(Tensor::close);
        return FlashResult.of(form.form(), x, causal);
    }

    private Tensor nan(Tensor like, DType type) {
        return torch.full(Tensors.shape(like), new Scalar(Double.NaN), device.options(type));
    }

    private void assertRight(TestedVariant form, DType type, FlashInputs x, String what) {
        for (boolean causal : MASKS) {
            try (var each = MemoryScope.open()) {
                String which = what + (causal ? ", causal" : "");
                FlashReference.of(x, causal).assertNear(form, type, run(form, x, causal), which);
            }
        }
    }

    private static void assertSameBits(TestedVariant form, FlashResult expected, FlashResult actual, String what) {
        for (int i = 0; i < FlashResult.NAMES.size(); i++) {
            String name = FlashResult.NAMES.get(i);
            boolean same = expected.tensors().get(i).equal(actual.tensors().get(i));
            assertTrue(same || name.equals("dQ") && !form.dQRepeats(), name + " of " + form + ", " + what);
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void everyShapeIsAsNearToFp64AsTheTypeAllows(TestedVariant form, DType type) {
        for (int d : widths()) {
            for (Shape shape : shapes()) {
                try (var each = MemoryScope.open()) {
                    assertRight(form, type, random(type, shape, d), shape + ", d " + d);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("forms")
    void theCoursesShapeHoldsThroughAutograd(TestedVariant form) {
        for (DType type : form.types()) {
            for (boolean causal : MASKS) {
                FlashInputs x = FlashInputs.random(device, type, new long[] {4, 128, 64}, new long[] {4, 128, 64});
                FlashInputs leaves = x.each(tensor -> tensor.detach().set_requires_grad(true));
                Tensor o = Attention.named(form.name()).apply(leaves.q(), leaves.k(), leaves.v(), causal);
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
    @MethodSource("formsAndTypes")
    void lIsOneNumberOfFp32AQuery(TestedVariant form, DType type) {
        FlashInputs heads = random(type, new Shape(2, 3, 20, 30), 16);
        FlashVariant.Attended attended = form.form().forward(heads.q(), heads.k(), heads.v(), false);
        assertEquals(DType.FLOAT32, DType.of(attended.l()));
        assertEquals(List.of(2L, 3L, 20L), list(attended.l()));
        assertEquals(type, DType.of(attended.o()));
        FlashInputs one = heads.each(x -> x.select(1, 0));
        FlashVariant.Attended ofOne = form.form().forward(one.q(), one.k(), one.v(), false);
        assertEquals(List.of(2L, 20L), list(ofOne.l()));
        assertEquals(List.of(2L, 20L, 16L), list(ofOne.o()));
        assertTrue(ofOne.o().equal(attended.o().select(1, 0)), "a head by itself is the same");
    }

    private static List<Long> list(Tensor x) {
        return Arrays.stream(Tensors.shape(x)).boxed().toList();
    }

    /** The same numbers, laid out in other ways. */
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
    @MethodSource("formsAndTypes")
    void stridesAndAddressesDoNotMatter(TestedVariant form, DType type) {
        for (int d : new int[] {16, 64}) {
            FlashInputs dense = random(type, new Shape(2, 3, 70, 90), d);
            LAYOUTS.forEach((what, layout) -> {
                FlashInputs other = dense.each(layout);
                assertTrue(other.k().equal(dense.k()) && !other.k().is_contiguous(), what);
                assertRight(form, type, other, what);
            });
            FlashInputs expanded = new FlashInputs(
                    dense.q(),
                    dense.k().narrow(1, 0, 1).expand(2, 3, 90, d),
                    dense.v().narrow(1, 0, 1).expand(2, 3, 90, d),
                    dense.dO().narrow(2, 0, 1).narrow(3, 0, 1).expand(2, 3, 70, d));
            assertRight(form, type, expanded, "one key for all heads, one gradient for all of a head");
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void repeatsBitForBit(TestedVariant form, DType type) {
        int runs = device.isCuda() ? 200 : 10; // a race is lost now and then only
        for (Shape shape : List.of(busy(), new Shape(1, 1, busy().t(), busy().s()))) {
            for (int d : new int[] {64, 128}) {
                FlashInputs x = random(type, shape, d);
                FlashResult first = run(form, x, true);
                for (int i = 1; i < runs; i++) {
                    try (var each = MemoryScope.open()) {
                        assertSameBits(form, first, FlashResult.of(form.form(), x, true), "d " + d + ", run " + i);
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void scoresOfTenThousandNeitherOverflowNorVanish(TestedVariant form, DType type) {
        int d = 64;
        for (double score : new double[] {1e4, -1e4}) {
            // q·k / 8 is about the score at every key, and a few more or less at some. Eight bits hold each number.
            FlashInputs random = random(DType.BFLOAT16, new Shape(1, 2, 150, 200), d);
            Tensor q = torch.full_like(random.q(), new Scalar(128));
            Tensor k = random.k().mul(new Scalar(0.03)).add(new Scalar(score / 1024));
            FlashInputs x = new FlashInputs(q, k, random.v(), random.dO()).to(type);
            for (boolean causal : MASKS) {
                // A score, a sum of 64 numbers up to 1e4, is known to a few times 1e4 · 2⁻²³.
                FlashReference.of(x, causal)
                        .assertElementsNear(form, type, run(form, x, causal), 2e-2, "scores of " + score);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void growingScoresMoveTheMaximumAtEveryTile(TestedVariant form, DType type) {
        int s = busy().s();
        FlashInputs random = random(DType.BFLOAT16, new Shape(1, 2, s, s), 64);
        for (double slope : new double[] {0.5, -0.5, 0.02}) { // of the scores, a key
            Tensor ramp = torch.arange(new Scalar(0), new Scalar(s), device.options(DType.FLOAT64))
                    .mul(new Scalar(slope / 8))
                    .unsqueeze(-1);
            Tensor k = random.k().mul(new Scalar(0.1)).add(ramp);
            FlashInputs x = new FlashInputs(torch.ones_like(random.q()), k, random.v(), random.dO())
                    .to(DType.BFLOAT16)
                    .to(type);
            for (boolean causal : MASKS) {
                FlashReference.of(x, causal)
                        .assertElementsNear(form, type, run(form, x, causal), 1e-3, "scores grow by " + slope);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void oneKeyThatOutweighsAllOthersIsCopied(TestedVariant form, DType type) {
        FlashInputs x = random(type, new Shape(1, 2, 70, 300), 16);
        x.q().fill_(new Scalar(1e3));
        x.k().fill_(new Scalar(-30));
        for (int key : new int[] {0, 200, 299}) {
            Tensor k = x.k().clone();
            k.select(2, key).fill_(new Scalar(30)); // scores of −120,000 elsewhere, 120,000 here
            Tensor copied = x.v().narrow(2, key, 1);
            Tensor o = form.form().forward(x.q(), k, x.v(), false).o();
            double allowed = 2 * form.rounding(type) + TestedVariant.ofSums(1);
            double error = number(o.sub(copied)
                    .div(copied)
                    .abs()
                    .to(DType.FLOAT64.scalarType())
                    .max());
            assertTrue(error <= allowed, form + " in " + type + ", key " + key + ": " + error);
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypesWithRangeOfFp32")
    void aQueryWhoseScoresAreAllMinusInfinityGetsZeroAndGivesNoGradient(TestedVariant form, DType type) {
        FlashInputs without = random(type, new Shape(1, 2, 100, 130), 64);
        without.k().abs_().add_(new Scalar(2));
        int query = 77;
        FlashInputs with = new FlashInputs(
                without.q().clone(), without.k(), without.v(), without.dO().clone());
        with.q().select(2, query).fill_(new Scalar(-3e38)); // its products overflow
        without.dO().select(2, query).fill_(new Scalar(0)); // which makes it take no part
        for (boolean causal : MASKS) {
            FlashResult result = run(form, with, causal);
            assertEquals(0, number(result.o().select(2, query).abs().max()), "o");
            assertEquals(0, number(result.dQ().select(2, query).abs().max()), "dQ");
            assertEquals(
                    Double.NEGATIVE_INFINITY, number(result.l().select(2, query).max()), "L");
            FlashReference others = FlashReference.of(without, causal);
            result.o().select(2, query).copy_(others.exact().o().select(2, query));
            result.l().select(2, query).copy_(others.exact().l().select(2, query));
            others.assertElementsNear(form, type, result, 0, "the others");
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void notANumberStaysWithItsQueryAndItsHead(TestedVariant form, DType type) {
        FlashInputs clean = random(type, new Shape(1, 3, 100, 130), 64);
        int query = 50;
        FlashInputs dirty = new FlashInputs(clean.q().clone(), clean.k(), clean.v(), clean.dO());
        dirty.q().select(1, 1).select(1, query).narrow(1, 3, 1).fill_(new Scalar(Double.NaN)); // of head 1
        for (boolean causal : MASKS) {
            FlashResult expected = run(form, clean, causal);
            FlashResult result = run(form, dirty, causal);
            for (Tensor x : List.of(result.o(), result.l(), result.dQ())) {
                assertTrue(allNaN(x.select(1, 1).select(1, query)), "its own results");
            }
            for (Tensor x : List.of(result.dK(), result.dV())) {
                assertTrue(allNaN(x.select(1, 1).narrow(1, 0, causal ? query + 1 : 130)), "of keys that it sees");
                assertTrue(!anyNaN(x.select(1, 0)) && !anyNaN(x.select(1, 2)), "of other heads");
            }
            // Without that query, and the gradients to which it adds, all is as before.
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
            FlashReference.of(clean, causal).assertNear(form, type, result, "the others");

            // Nor does a key reach queries that do not see it.
            FlashInputs later = new FlashInputs(clean.q(), clean.k().clone(), clean.v(), clean.dO());
            later.k().select(2, query).fill_(new Scalar(Double.NaN));
            FlashVariant.Attended attended = form.form().forward(later.q(), later.k(), later.v(), causal);
            int seeing = causal ? query : 0;
            for (Tensor x : List.of(attended.o(), attended.l())) {
                assertTrue(!causal || !anyNaN(x.narrow(2, 0, query)), "before a key that is not a number");
                assertTrue(allNaN(x.narrow(2, seeing, 100 - seeing)), "from a key on that is not a number");
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
    @MethodSource("formsAndTypes")
    void keysThatNoQuerySeesHaveNoGradient(TestedVariant form, DType type) {
        for (Shape shape : List.of(new Shape(2, 2, 10, 30), new Shape(1, 2, 65, 300), new Shape(1, 1, 64, 1000))) {
            for (int d : new int[] {16, 64, 128}) {
                FlashResult result = run(form, random(type, shape, d), true);
                for (Tensor x : List.of(result.dK(), result.dV())) {
                    Tensor unseen = x.narrow(2, shape.t(), shape.s() - shape.t());
                    assertEquals(0, number(unseen.abs().max()), form + " in " + type + ", " + shape + ", d " + d);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("formsAndTypes")
    void aModelLearnsTheSameAsFromPlainAttention(TestedVariant form, DType type) {
        for (ModelEdition year : ModelEdition.values()) {
            List<double[]> exact = gradients(year, "plain", DType.FLOAT64);
            double plain = distance(exact, gradients(year, "plain", type));
            double flash = distance(exact, gradients(year, form.name(), type));
            // Attention's own roundings are a few among the many of a model in this type.
            double allowed = 1.2 * plain + form.products().of(type);
            assertTrue(flash <= allowed, form + " in " + type + ": " + flash + "; plain attention: " + plain);
        }
    }

    /** Distance of all gradients together, as a part of their norm. */
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

    /** Gradients of all parameters of a small model, the same in every type: in fp64, in fp32, or under autocast. */
    private List<double[]> gradients(ModelEdition year, String attention, DType type) {
        var config = new TransformerConfig(year, 50, 150, 64, 2, 2, 128, "rmsnorm", attention);
        boolean wide = type == DType.FLOAT64;
        try (var each = MemoryScope.open();
                var model = new TransformerLM(config, device, wide ? type : DType.FLOAT32)) {
            giveWeights(model);
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

    private void giveWeights(TransformerLM model) {
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
    @MethodSource("forms")
    void whatAFormDoesNotTakeIsRefusedBeforeAnyNativeCall(TestedVariant form) {
        if (form.form() instanceof TiledFlash) return; // takes everything
        FlashInputs cpu =
                FlashInputs.random(Device.cpu(), DType.BFLOAT16, new long[] {1, 9, 16}, new long[] {1, 9, 16});
        assertRefused(form, cpu, "cpu");
        assertRefused(form, cpu.to(DType.FLOAT64), "fp64");
        assertRefused(form, random(form.types().iterator().next(), new Shape(1, 1, 9, 9), 136), "136");
    }

    private static void assertRefused(TestedVariant form, FlashInputs x, String named) {
        String said = assertThrows(
                        IllegalArgumentException.class,
                        () -> form.form().forward(x.q(), x.k(), x.v(), false),
                        form.toString())
                .getMessage();
        assertTrue(said.startsWith("q must ") && said.contains(named), said);
    }
}
