package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.GradScaler;
import cs336.basics.GradScalerSettings;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class GradientUnderflowTest {
    private static final int SEQUENCES = 2;
    private static final int TOKENS = 16;
    /** The gradient of a logit is about 1 ÷ (vocabulary · tokens) = 6·10⁻⁵ of the loss scale. */
    private static final int VOCABULARY = 500;
    /** A loss scale with which it underflows in fp16 (below 3·10⁻⁸), as with more tokens or a larger vocabulary. */
    private static final double SMALL_SCALE = 0x1p-14;

    private static TransformerLM model(int vocabulary) {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(vocabulary)
                .contextLength(TOKENS)
                .dModel(16)
                .numLayers(1)
                .numHeads(2)
                .dFf(32)
                .build();
        return new TransformerLM(config, Device.cpu());
    }

    @Test
    void theLossScaleDeterminesTheUnderflowOfTheLogitsGradients() {
        Torch.seed(2);
        var options = new GradScalerSettings(SMALL_SCALE, 2, 0.5, 1);
        try (var model = model(VOCABULARY);
                var small = new GradScaler(Device.cpu(), options);
                var usual = new GradScaler(Device.cpu())) {
            var lost = GradientUnderflow.of(model, SEQUENCES, TOKENS, DType.FLOAT16, small);
            var kept = GradientUnderflow.of(model, SEQUENCES, TOKENS, DType.FLOAT16, usual);
            assertTrue(lost.lost() > 0.9, lost.toString());
            assertEquals(0, kept.lost(), kept.toString());
            assertTrue(10 * kept.error() < lost.error(), kept + " " + lost);
            var bf16 = GradientUnderflow.of(model, SEQUENCES, TOKENS, DType.BFLOAT16, small);
            assertEquals(0, bf16.lost(), bf16.toString());
        }
    }

    @Test
    void zerosOfTheFp32GradientAreNotLost() {
        try (var model = model(100);
                var noScaling = GradScaler.disabled()) {
            try (var noGrad = NoGrad.open()) { // the probabilities of most tokens become 0 in fp32, too
                model.namedParameters().get("lm_head.weight").mul_(new Scalar(1e4));
            }
            assertEquals(
                    0,
                    GradientUnderflow.of(model, SEQUENCES, TOKENS, DType.FLOAT32, noScaling)
                            .lost());
        }
    }

    @Test
    void fp32HasNoUnderflow() {
        try (var model = model(100);
                var noScaling = GradScaler.disabled()) {
            // Gradients of an earlier pass must not count.
            model.parameters().forEach(p -> p.mutable_grad().put(torch.ones_like(p)));
            assertEquals(new GradientUnderflow(0, 0), GradientUnderflow.of(model, 2, 16, DType.FLOAT32, noScaling));
            assertTrue(model.parameters().stream().noneMatch(p -> p.grad().defined()), "the gradients are freed");
        }
    }
}
