package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.PlainAttention;
import cs336.basics.TransformerConfig;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class AttentionFusionTest extends ScopedTest {
    private static final String FORWARD = "flash_attention";
    private static final String BACKWARD = "flash_attention_backward";
    private static final int BATCH = 2;
    private static final int HEADS = 3;
    private static final int WIDTH = 8;
    private static final int CONTEXT = 12;

    @BeforeEach
    void open() {
        Torch.seed(System.nanoTime());
        Torch.allowTf32(false);
    }

    /** Attention in plain operations with a changeable middle. */
    private record Variation(
            double scale, UnaryOperator<Tensor> maskOf, UnaryOperator<Tensor> ofScores, UnaryOperator<Tensor> ofP) {
        Tensor apply(Tensor q, Tensor k, Tensor v) {
            Tensor scores = ofScores.apply(q.mul(new Scalar(scale)).matmul(k.transpose(-2, -1)));
            Tensor mask = maskOf.apply(scores);
            Tensor p = torch.softmax(mask == null ? scores : scores.add(mask), -1);
            return ofP.apply(p).matmul(v);
        }
    }

    private static Variation exact() {
        return new Variation(1 / Math.sqrt(WIDTH), AttentionFusionTest::causal, s -> s, p -> p);
    }

    private static Tensor causal(Tensor scores) {
        return torch.full(
                        new long[] {scores.size(-2), scores.size(-1)},
                        new Scalar(Double.NEGATIVE_INFINITY),
                        scores.options())
                .triu(1);
    }

    private static TensorFunction of(Variation variation) {
        return in -> new Tensor[] {variation.apply(in[0], in[1], in[2])};
    }

    private static TensorFunction plain(boolean causal) {
        var attention = new PlainAttention();
        return in -> {
            try {
                return new Tensor[] {attention.apply(in[0], in[1], in[2], causal)};
            } finally {
                attention.freeCache();
            }
        };
    }

    /** Returns the first output of a function of q, k and v, and the gradients of the inputs for a gradient of it. */
    private static TensorFunction withBackward(TensorFunction function) {
        return in -> {
            Tensor[] leaves = new Tensor[3];
            for (int i = 0; i < leaves.length; i++) {
                leaves[i] = in[i].detach().set_requires_grad(true);
            }
            Tensor y = function.apply(leaves)[0];
            List<Tensor> all = new ArrayList<>(List.of(y.detach()));
            all.addAll(Arrays.asList(Backward.of(y).with(in[3]).gradients(leaves)));
            return all.toArray(new Tensor[0]);
        };
    }

    /** Returns q, k, v and a gradient of the output, with the heads next to the features in memory, as in a model. */
    private static Tensor[] inputs(Device device, DType dtype, long queries, long keys) {
        Tensor[] inputs = new Tensor[4];
        for (int i = 0; i < inputs.length; i++) {
            long[] shape = {BATCH, i == 0 || i == 3 ? queries : keys, HEADS, WIDTH};
            inputs[i] = torch.randn(shape, device.options(dtype)).transpose(1, 2);
        }
        return inputs;
    }

    private static Program record(TensorFunction function, Tensor... inputs) {
        return Recorder.record(function, inputs);
    }

    private static long calls(Program program, String operator) {
        return program.operations().stream()
                .filter(operation -> operation.operator().toString().equals(operator))
                .count();
    }

    private static void assertStoresNoScores(Program program, long queries, long keys) {
        for (var operation : program.operations()) {
            for (ProgramValue value : operation.creates()) {
                long[] shape = value.layout().shape();
                int rank = shape.length;
                boolean isMatrix = rank >= 2
                        && (shape[rank - 2] == queries && shape[rank - 1] == keys
                                || shape[rank - 2] == keys && shape[rank - 1] == queries);
                assertTrue(!isMatrix, operation::toString);
            }
        }
    }

    /** Returns the norm of each output's error, relative to the norm of the output computed in fp64. */
    private static double[] errors(Tensor[] exact, Tensor... found) {
        return errors(exact, exact, found);
    }

    /** Returns the norm of each output's error, relative to the norm of another tensor. */
    private static double[] errors(Tensor[] exact, Tensor[] scales, Tensor... found) {
        double[] errors = new double[found.length];
        for (int i = 0; i < found.length; i++) {
            Tensor difference = found[i].to(ScalarType.Double).sub(exact[i]);
            errors[i] = difference.norm().item_double() / scales[i].norm().item_double();
        }
        return errors;
    }

    /**
     * Returns attention's output and gradients with all terms of their sums positive, in fp64. Rounding errors are
     * relative to these sums: where terms cancel, as in dP − D, the results are smaller, but not their errors.
     */
    private static Tensor[] sumsOfMagnitudes(boolean causal, Tensor... in) {
        Tensor q = in[0], k = in[1], v = in[2].abs(), dO = in[3].abs();
        var scale = new Scalar(1 / Math.sqrt(WIDTH));
        Tensor scores = q.matmul(k.transpose(-2, -1)).mul(scale);
        Tensor p = torch.softmax(causal ? scores.add(causal(scores)) : scores, -1);
        Tensor dP = dO.matmul(v.transpose(-2, -1));
        Tensor d = dP.mul(p).sum(new long[] {-1}, true, new ScalarTypeOptional());
        Tensor dS = p.mul(dP.add(d)).mul(scale);
        return new Tensor[] {
            p.matmul(v),
            dS.matmul(k.abs()),
            dS.transpose(-2, -1).matmul(q.abs()),
            p.transpose(-2, -1).matmul(dO)
        };
    }

    private static Tensor[] inDoubles(Tensor... tensors) {
        return Arrays.stream(tensors).map(x -> x.to(ScalarType.Double)).toArray(Tensor[]::new);
    }

    private static void assertReplaced(Device device, DType dtype, boolean causal, long queries, long keys) {
        Tensor[] in = inputs(device, dtype, queries, keys);
        for (boolean isBackward : new boolean[] {false, true}) {
            TensorFunction function = isBackward ? withBackward(plain(causal)) : plain(causal);
            Tensor[] given = isBackward ? in : Arrays.copyOf(in, 3);
            Tensor[] expected = function.apply(given);
            Tensor[] exact = function.apply(inDoubles(given));
            Tensor[] scales = sumsOfMagnitudes(causal, inDoubles(in));
            double[] plain = errors(exact, scales, expected);
            Program recorded = record(function, given);
            Program fused = FusionPasses.fuseAttention(recorded, device);
            assertEquals(1, calls(fused, FORWARD), fused::toString);
            assertEquals(isBackward ? 1 : 0, calls(fused, BACKWARD), fused::toString);
            assertStoresNoScores(fused, queries, keys);
            for (Program program : List.of(fused, FusionPasses.fuse(fused, device))) {
                Tensor[] got = new Interpreter(program).run(given);
                double[] errors = errors(exact, scales, got);
                for (int i = 0; i < got.length; i++) {
                    assertEquals(DType.of(expected[i]), DType.of(got[i]));
                    double ulp = dtype == DType.FLOAT32 ? 0x1p-24 : dtype == DType.FLOAT64 ? 0x1p-53 : 0x1p-9;
                    // at most the plain error, and one rounding of the output or a few of fp32 and fp64
                    double bound = plain[i] + (dtype == DType.BFLOAT16 ? 1 : 4) * ulp;
                    assertTrue(errors[i] <= bound, "output " + i + ": " + errors[i] + " > " + bound);
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"FLOAT32, 12, 12", "FLOAT64, 12, 12", "BFLOAT16, 12, 12", "FLOAT32, 5, 11", "FLOAT32, 11, 5"})
    void plainAttentionIsReplacedWithinRounding(DType dtype, long queries, long keys) {
        assertReplaced(Device.cpu(), dtype, true, queries, keys);
        assertReplaced(Device.cpu(), dtype, false, queries, keys);
    }

    @ParameterizedTest
    @CsvSource({"FLOAT32, 64, 64", "BFLOAT16, 64, 64", "FLOAT16, 64, 64", "FLOAT32, 70, 33"})
    @Tag("gpu")
    void plainAttentionIsReplacedWithinRoundingOnAGpu(DType dtype, long queries, long keys) {
        assertReplaced(Device.cuda(0), dtype, true, queries, keys);
        assertReplaced(Device.cuda(0), dtype, false, queries, keys);
    }

    @Test
    @Tag("gpu")
    void attentionWithoutAKernelStaysAsItIsOnAGpu() {
        Tensor[] doubles = inputs(Device.cuda(0), DType.FLOAT64, 12, 12);
        Program recorded = record(plain(true), doubles);
        assertSame(recorded, FusionPasses.fuseAttention(recorded, Device.cuda(0)));
    }

    @Test
    void attentionWithoutHeadsIsReplaced() {
        Tensor[] in = new Tensor[4];
        Arrays.setAll(in, i -> torch.randn(3, 9, WIDTH));
        Program fused = FusionPasses.fuseAttention(record(withBackward(of(exact())), in), Device.cpu());
        assertEquals(1, calls(fused, BACKWARD));
        double[] errors = errors(withBackward(of(exact())).apply(inDoubles(in)), new Interpreter(fused).run(in));
        assertTrue(Arrays.stream(errors).allMatch(error -> error < 1e-6), Arrays.toString(errors));
    }

    /** On a GPU, autocast computes the softmax in fp32 between matrix multiplications in bf16. */
    @Test
    void castsAroundTheSoftmaxArePartOfTheAttention() {
        Variation casts = new Variation(
                1 / Math.sqrt(WIDTH),
                AttentionFusionTest::causal,
                scores -> scores.to(ScalarType.Float),
                p -> p.to(ScalarType.BFloat16));
        TensorFunction function = in -> new Tensor[] {
            casts.apply(in[0].to(ScalarType.BFloat16), in[1].to(ScalarType.BFloat16), in[2].to(ScalarType.BFloat16))
        };
        Tensor[] in = inputs(Device.cpu(), DType.FLOAT32, 12, 12);
        in[3] = in[3].to(ScalarType.BFloat16);
        Program fused = FusionPasses.fuseAttention(record(withBackward(function), in), Device.cpu());
        assertEquals(1, calls(fused, FORWARD), fused::toString);
        assertEquals(1, calls(fused, BACKWARD), fused::toString);
        assertStoresNoScores(fused, 12, 12);
        double[] errors = errors(withBackward(of(exact())).apply(inDoubles(in)), new Interpreter(fused).run(in));
        assertTrue(Arrays.stream(errors).allMatch(error -> error < 8e-3), Arrays.toString(errors));
    }

    private static Stream<Variation> others() {
        double scale = 1 / Math.sqrt(WIDTH);
        UnaryOperator<Tensor> same = x -> x;
        Tensor constant = causal(torch.zeros(12, 12));
        return Stream.of(
                new Variation(scale * 1.001, AttentionFusionTest::causal, same, same),
                new Variation(1 / Math.sqrt(2 * WIDTH), s -> null, same, same),
                new Variation(scale, s -> causal(s).triu(2), same, same), // one key ahead
                new Variation(scale, s -> causal(s).transpose(0, 1), same, same),
                new Variation(scale, s -> causal(s).clamp_min(new Scalar(-3.0)), same, same),
                new Variation(scale, s -> constant, same, same), // its elements may change
                new Variation(scale, s -> causal(s).narrow(0, 0, 1), same, same), // that of the first query, for all
                new Variation(scale, s -> torch.rand_like(s), same, same),
                new Variation(
                        scale, s -> causal(s).add(torch.rand_like(causal(s)).floor()), same, same), // in this run
                new Variation(scale, s -> null, s -> s.clone().transpose(-2, -1), same),
                new Variation(scale, s -> null, same, p -> p.transpose(-2, -1).contiguous()),
                new Variation(scale, s -> null, s -> s.mul(new Scalar(0.5)), same),
                new Variation(scale, s -> null, s -> s.tanh(), same),
                new Variation(scale, s -> null, same, p -> torch.dropout(p, 0.5, true)),
                new Variation(scale, s -> null, same, p -> p.mul(p)));
    }

    @ParameterizedTest
    @MethodSource("others")
    void otherScalesMasksAndProbabilitiesStayAsTheyAre(Variation variation) {
        Tensor[] in = inputs(Device.cpu(), DType.FLOAT32, 12, 12);
        assertStays(of(variation), Arrays.copyOf(in, 3));
        assertStays(withBackward(of(variation)), in);
    }

    private static void assertStays(TensorFunction function, Tensor... in) {
        assertStays(record(function, in));
    }

    private static void assertStays(Program program) {
        assertSame(program, FusionPasses.fuseAttention(program, Device.cpu()), program::toString);
    }

    /** The backward pass of other queries, keys, values or gradients is not that of the forward pass. */
    @Test
    void attentionWithOneOtherOperandStaysAsItIs() {
        Tensor[] in = new Tensor[4];
        Arrays.setAll(in, i -> torch.randn(3, 9, WIDTH));
        Program recorded = record(withBackward(of(exact())), in);
        var other = new ProgramValue(recorded.size(), Layout.of(in[0]));
        int operands = 0;
        for (Operation gemm : recorded.operations()) {
            List<View> views = gemm.operator().toString().equals("bmm") ? gemm.reads() : List.of();
            for (View view : views) {
                if (view.value().shape()[2] == WIDTH) {
                    operands++;
                    for (View changed : List.of(
                            new View(other, view.layout()),
                            new View(view.value(), view.layout().withOffset(1)))) {
                        assertStays(with(recorded, gemm, gemm.withViews(v -> v == view ? changed : v)));
                    }
                }
            }
        }
        assertEquals(8, operands, recorded::toString);
    }

    @Test
    void aGradientOfQueriesWithAnotherScaleStaysAsItIs() {
        Tensor[] in = inputs(Device.cpu(), DType.FLOAT32, 12, 12);
        Program recorded = record(withBackward(of(exact())), in);
        Operation scaling = recorded.operations().get(recorded.operations().size() - 1);
        assertEquals("mul.Scalar", scaling.operator().toString(), recorded::toString);
        List<Argument> arguments = List.of(scaling.view(0), new Constant(0.5, null));
        assertStays(with(recorded, scaling, Operation.of(scaling.operator(), arguments, scaling.output())));
    }

    private static Program with(Program program, Operation operation, Operation replacement) {
        return program.withOperations(program.operations().stream()
                .map(each -> each == operation ? replacement : each)
                .toList());
    }

    @Test
    void aSoftmaxOverQueriesStaysAsItIs() {
        var scale = new Scalar(1 / Math.sqrt(WIDTH));
        assertStays(
                in -> {
                    Tensor scores = in[0].mul(scale).matmul(in[1].transpose(-2, -1));
                    return new Tensor[] {torch.softmax(scores, -2).matmul(in[2])};
                },
                Arrays.copyOf(inputs(Device.cpu(), DType.FLOAT32, 12, 12), 3));
    }

    @Test
    void valuesOfAnotherWidthStayAsTheyAre() {
        Tensor[] in = Arrays.copyOf(inputs(Device.cpu(), DType.FLOAT32, 12, 12), 3);
        in[2] = torch.randn(BATCH, HEADS, 12, WIDTH / 2);
        assertStays(of(exact()), in);
    }

    @Test
    void attentionWithAGradientOfTheValuesOnlyStaysAsItIs() {
        assertStays(
                in -> {
                    Tensor v = in[2].detach().set_requires_grad(true);
                    Tensor o = exact().apply(in[0], in[1], v);
                    return new Tensor[] {o.detach(), Backward.of(o).with(in[3]).gradients(v)[0]};
                },
                inputs(Device.cpu(), DType.FLOAT32, 12, 12));
    }

    @Test
    void attentionWhoseScoresOrProbabilitiesAreReadElsewhereStaysAsItIs() {
        Tensor[] in = Arrays.copyOf(inputs(Device.cpu(), DType.FLOAT32, 12, 12), 3);
        for (int which = 0; which < 3; which++) {
            var kept = new AtomicReference<Tensor>();
            int seen = which;
            UnaryOperator<Tensor> keep = x -> {
                kept.set(x);
                return x;
            };
            Variation exact = exact();
            Variation read = new Variation(
                    exact.scale(), exact.maskOf(), which == 0 ? keep : s -> s, which == 0 ? p -> p : keep);
            assertStays(
                    given -> {
                        Tensor o = read.apply(given[0], given[1], given[2]);
                        return new Tensor[] {o, seen == 2 ? kept.get().sum() : kept.get()};
                    },
                    in);
        }
    }

    @Test
    void aMaskThatAnInputDeterminesStaysAsItIs() {
        Tensor[] in = Arrays.copyOf(inputs(Device.cpu(), DType.FLOAT32, 12, 12), 4);
        in[3] = causal(torch.zeros(12, 12));
        assertStays(
                given -> new Tensor[] {
                    new Variation(1 / Math.sqrt(WIDTH), s -> given[3].clone(), s -> s, p -> p)
                            .apply(given[0], given[1], given[2])
                },
                in);
    }

    @Test
    void attentionWhoseQueriesOrKeysAreOverwrittenStaysAsItIs() {
        Tensor[] in = new Tensor[3];
        Arrays.setAll(in, i -> torch.randn(3, 9, WIDTH));
        for (int which = 0; which < 2; which++) {
            int overwritten = which;
            assertStays(
                    given -> {
                        UnaryOperator<Tensor> overwrite = p -> {
                            given[overwritten].zero_(); // after the scores are computed
                            return p;
                        };
                        var variation = new Variation(1 / Math.sqrt(WIDTH), s -> null, s -> s, overwrite);
                        return new Tensor[] {variation.apply(given[0], given[1], given[2])};
                    },
                    in);
        }
    }

    @Test
    void attentionWhoseOutputIsOverwrittenStaysAsItIs() {
        Tensor[] in = new Tensor[3];
        Arrays.setAll(in, i -> torch.randn(3, 9, WIDTH));
        assertStays(
                given -> new Tensor[] {
                    exact().apply(given[0], given[1], given[2]).mul_(new Scalar(2))
                },
                in);
    }

    private static TransformerConfig tiny(ModelEdition edition) {
        return TransformerConfig.builder()
                .edition(edition)
                .vocabSize(40)
                .contextLength(CONTEXT)
                .dModel(16)
                .numLayers(2)
                .numHeads(2)
                .dFf(24)
                .attention("plain")
                .build();
    }

    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void aTrainingStepHasNoScoresAfterThePass(ModelEdition edition) {
        TransformerConfig config = tiny(edition);
        for (Precision precision : List.of(Precision.FP32, Precision.BF16)) {
            try (var step = new LanguageModelStep(config, precision, Device.cpu())) {
                step.apply(step.batch()); // caches a mask, which a recording must not read
                Program fused = FusionPasses.fuseAttention(step.record(), Device.cpu());
                assertEquals(2, calls(fused, FORWARD));
                assertEquals(2, calls(fused, BACKWARD));
                assertStoresNoScores(fused, CONTEXT, CONTEXT);
                assertEquals(0, calls(fused, "bmm"));
            }
        }
    }

    @Test
    void aStepThatRecomputesItsActivationsHasNoScoresAfterThePass() {
        TransformerConfig config = tiny(ModelEdition.SPRING_2025).withCheckpointing(CheckpointPolicy.recursive());
        try (var step = new LanguageModelStep(config, Precision.FP32, Device.cpu())) {
            Program fused = FusionPasses.fuseAttention(step.record(), Device.cpu());
            assertEquals(2, calls(fused, BACKWARD));
            assertStoresNoScores(fused, CONTEXT, CONTEXT);
            Tensor[] batch = step.batch();
            double[] errors = errors(inDoubles(step.apply(batch)), new Interpreter(fused).run(batch));
            assertTrue(Arrays.stream(errors).allMatch(error -> error < 5e-6), Arrays.toString(errors));
        }
    }

    @Test
    void theForwardPassSavesTheInputsTheOutputAndTheLogSumExp() {
        Tensor[] in = inputs(Device.cpu(), DType.FLOAT32, 12, 12);
        Program joint = FusionPasses.fuseAttention(record(withBackward(plain(true)), in), Device.cpu());
        Partition parts =
                Partition.of(FusionPasses.prepare(joint, Device.cpu()), 3, 1).orElseThrow();
        MemoryPlan plan = MemoryPlan.of(parts);
        assertEquals(3, plan.inputs().size());
        long features = BATCH * HEADS * 12L * WIDTH;
        long saved =
                plan.saved().stream().mapToLong(value -> value.layout().bytes()).sum();
        assertEquals((features + BATCH * HEADS * 12L) * Float.BYTES, saved);
    }
}
