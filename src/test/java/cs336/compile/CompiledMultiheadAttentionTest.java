package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.NnModule;
import cs336.bench.Precision;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Module;
import org.bytedeco.pytorch.MultiheadAttentionImpl;
import org.bytedeco.pytorch.MultiheadAttentionOptions;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.T_TensorTensor_T;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TransformerDecoderImpl;
import org.bytedeco.pytorch.TransformerDecoderLayerOptions;
import org.bytedeco.pytorch.TransformerDecoderOptions;
import org.bytedeco.pytorch.TransformerEncoderImpl;
import org.bytedeco.pytorch.TransformerEncoderLayerOptions;
import org.bytedeco.pytorch.TransformerEncoderOptions;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Compiled attention layers of the presets. They compare query, key and value with {@code torch.equal}, to find out if
 * these are the same tensor.
 */
class CompiledMultiheadAttentionTest extends ScopedTest {
    private static final int WIDTH = 8;
    private static final int BATCH = 3;
    private static final String REFUSAL =
            "the function cannot be recorded: equal reads elements of a tensor on the host,"
                    + " unless its tensors have different shapes or are the same tensor without NaN; MultiheadAttention compares"
                    + " query, key and value, called at CompiledMultiheadAttentionTest.java:";

    private static Tensor tokens(long length) {
        return torch.randn(length, BATCH, WIDTH);
    }

    private static MultiheadAttentionImpl attention(double dropout, boolean hasBias) {
        var options = new MultiheadAttentionOptions(WIDTH, 2);
        options.dropout().put(dropout);
        options.bias().put(hasBias);
        return new MultiheadAttentionImpl(options);
    }

    private static Tensor[] attend(MultiheadAttentionImpl layer, Tensor query, Tensor memory) {
        T_TensorTensor_T results = layer.forward(query, memory, memory);
        return new Tensor[] {results.get0(), results.get1()};
    }

    private static TransformerEncoderImpl encoder(double dropout) {
        var options = new TransformerEncoderLayerOptions(WIDTH, 2);
        options.dropout().put(dropout);
        return new TransformerEncoderImpl(new TransformerEncoderOptions(options, 2));
    }

    private static TransformerDecoderImpl decoder(double dropout) {
        var options = new TransformerDecoderLayerOptions(WIDTH, 2);
        options.dropout().put(dropout);
        return new TransformerDecoderImpl(new TransformerDecoderOptions(options, 2));
    }

    private static Tensor causalMask(long length) {
        return torch.triu(torch.full(new long[] {length, length}, new Scalar(Double.NEGATIVE_INFINITY)), 1);
    }

    private static Tensor[] copies(Tensor... tensors) {
        return Arrays.stream(tensors).map(Tensor::clone).toArray(Tensor[]::new);
    }

    /** Compares calls with plain execution, with the same random numbers. */
    private static void checkLikePlain(TensorFunction function, Tensor... template) {
        try (var noGrad = NoGrad.open();
                var compiled = Compiled.of(function)) {
            for (int call = 0; call < 3; call++) {
                Tensor[] inputs = Arrays.stream(template).map(torch::randn_like).toArray(Tensor[]::new);
                Torch.seed(call);
                Tensor[] expected = function.apply(copies(inputs));
                Torch.seed(call);
                Tensor[] actual = compiled.apply(inputs);
                for (int i = 0; i < expected.length; i++) {
                    assertArrayEquals(Tensors.toDoubles(expected[i]), Tensors.toDoubles(actual[i]));
                }
            }
            assertEquals(1, compiled.recordings());
        }
    }

    @ParameterizedTest
    @CsvSource({"0, false", "0, true", "0.5, false", "0.5, true"})
    void layersComputeLikePlain(double dropout, boolean isTraining) {
        MultiheadAttentionImpl attention = attention(dropout, true);
        TransformerEncoderImpl encoder = encoder(dropout);
        TransformerDecoderImpl decoder = decoder(dropout);
        for (Module module : List.of(attention, encoder, decoder)) {
            module.train(isTraining);
        }
        Tensor padding = torch.zeros(BATCH, 5).to(torch.ScalarType.Bool);
        padding.narrow(1, 3, 2).fill_(new Scalar(1));
        Tensor causal = causalMask(5);
        checkLikePlain(in -> attend(attention, in[0], in[0]), tokens(5));
        checkLikePlain(in -> attend(attention, in[0].transpose(0, 1), in[0].transpose(0, 1)), tokens(5));
        checkLikePlain(in -> attend(attention, in[0], in[1]), tokens(5), tokens(4));
        checkLikePlain(
                in -> {
                    var results = attention.forward(in[0], in[0], in[0], padding, true, causal, false);
                    return new Tensor[] {results.get0(), results.get1()};
                },
                tokens(5));
        checkLikePlain(in -> new Tensor[] {encoder.forward(in[0], causal, padding)}, tokens(5));
        checkLikePlain(
                in -> new Tensor[] {decoder.forward(in[0], in[1], causal, new Tensor(), padding, new Tensor())},
                tokens(5),
                tokens(4));
        checkLikePlain(
                in -> {
                    try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                        return new Tensor[] {encoder.forward(in[0], causal, new Tensor())};
                    }
                },
                tokens(5));
    }

    @Test
    void gradientsAreThoseOfPlainExecution() {
        MultiheadAttentionImpl layer = attention(0, false);
        TensorFunction function = in -> attend(layer, in[0], in[0]);
        List<Tensor> weights = handles(layer);
        try (var compiled = Compiled.of(function, weights)) {
            for (int call = 0; call < 3; call++) {
                Tensor x = tokens(4).set_requires_grad(true);
                List<Tensor> leaves = new ArrayList<>(weights);
                leaves.add(x);
                Tensor[] expected = gradients(function.apply(x)[0], leaves);
                Tensor[] actual = gradients(compiled.apply(x)[0], leaves);
                for (int i = 0; i < expected.length; i++) {
                    assertArrayEquals(Tensors.toDoubles(expected[i]), Tensors.toDoubles(actual[i]), 1e-6);
                }
            }
            assertEquals(1, compiled.recordings());
        }
    }

    private static Tensor[] gradients(Tensor output, List<Tensor> leaves) {
        return Backward.of(output.square().sum()).gradients(leaves.toArray(new Tensor[0]));
    }

    private static List<Tensor> handles(Module module) {
        return Arrays.stream(module.parameters().get()).map(Tensor::new).toList();
    }

    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16"})
    void fusedStepsTrainAnEncoder(Precision precision) {
        assertArrayEquals(train(precision, false), train(precision, true));
    }

    /** Returns the losses of a few steps. */
    private static double[] train(Precision precision, boolean isFused) {
        Torch.seed(1);
        TransformerEncoderImpl encoder = encoder(0.5);
        Tensor causal = causalMask(5);
        var module = new NnModule() {
            void parameters(List<Tensor> of) {
                of.forEach(tensor -> parameter("parameter" + ownParameters().size(), tensor));
            }

            @Override
            protected Tensor compute(Tensor input) {
                return encoder.forward(input, causal, new Tensor());
            }
        };
        module.parameters(handles(encoder));
        double[] losses = new double[4];
        try (module;
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(1e-2));
                var step = CompiledStep.of(module, (y, t) -> y.sub(t).square().mean(), optimizer, precision)) {
            if (isFused) {
                step.fuse();
            }
            Arrays.setAll(losses, i -> step.run(tokens(5), tokens(5)).item_double());
        }
        return losses;
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void tensorsOfOneShapeAreNotCompared(boolean haveEqualElements) {
        MultiheadAttentionImpl layer = attention(0, true);
        Tensor x = tokens(4);
        String message = Refusal.of(in -> attend(layer, in[0], in[1]), x, haveEqualElements ? x.clone() : tokens(4));
        assertTrue(message.startsWith(REFUSAL), message);
        assertTrue(Refusal.of(in -> attend(layer, in[0], in[0].mul(in[0])), x).startsWith(REFUSAL));
    }

    /** The views of one tensor differ in their offsets, or in their strides. */
    @Test
    void differentViewsOfATensorAreNotCompared() {
        TensorFunction halves = in -> answer(in[0].narrow(0, 0, 2), in[0].narrow(0, 2, 2));
        assertTrue(Refusal.of(halves, tokens(4)).startsWith(REFUSAL));
        assertTrue(Refusal.of(in -> answer(in[0], in[0].transpose(0, 1)), torch.randn(3, 3))
                .startsWith(REFUSAL));
    }

    private static Tensor[] answer(Tensor a, Tensor b) {
        return new Tensor[] {a.equal(b) ? a.exp() : a.neg()};
    }

    @Test
    void aTensorWithNanIsNotEqualToItself() {
        Tensor nan = torch.full(new long[] {3}, new Scalar(Double.NaN));
        assertFalse(nan.equal(nan));
        assertTrue(Refusal.of(in -> answer(in[0], in[0]), nan).startsWith(REFUSAL));
    }
}
