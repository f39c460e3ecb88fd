package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.checkpointing.CheckpointPolicy;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CompiledFuserTest {
    private static final int VOCAB = 40;
    private static final int TOKENS = 17;

    @ParameterizedTest
    @ValueSource(strings = {"everything", "all-but-ffn", "nothing", "elementwise+ffn-1"})
    void lossAndGradientsEqualThoseWithoutFusion(String policy) {
        agree(Device.cpu(), DType.FLOAT32, policy, 1e-5);
    }

    @Test
    void narrowModelsAgreeWithinAFewRoundings() {
        agree(Device.cpu(), DType.BFLOAT16, "all-but-ffn", 0.03);
        agree(Device.cpu(), DType.BFLOAT16, "elementwise", 0.03);
    }

    @ParameterizedTest
    @ValueSource(strings = {"everything", "all-but-ffn", "elementwise+ffn-1"})
    @Tag("gpu")
    void lossAndGradientsEqualThoseWithoutFusionOnAGpu(String policy) {
        Torch.allowTf32(false);
        agree(Device.cuda(0), DType.FLOAT32, policy, 1e-5);
        agree(Device.cuda(0), DType.BFLOAT16, policy, 0.03);
    }

    private static void agree(Device device, DType dtype, String policy, double bound) {
        TransformerConfig plain = TransformerConfig.builder()
                .vocabSize(VOCAB)
                .contextLength(TOKENS)
                .dModel(32)
                .numLayers(3)
                .numHeads(2)
                .dFf(48)
                .build();
        TransformerConfig fused = plain.withFusion("compiled").withCheckpointing(CheckpointPolicy.parse(policy));
        Torch.seed(System.nanoTime());
        try (var scope = MemoryScope.open();
                var expected = new TransformerLM(plain, device, dtype);
                var got = new TransformerLM(fused, device, dtype)) {
            got.load(expected.namedParameters());
            for (int pass = 0; pass < 2; pass++) { // the first one records
                Tensor ids = torch.randint(VOCAB, new long[] {2, TOKENS}, device.options(DType.INT64));
                Tensor targets = torch.randint(VOCAB, new long[] {2, TOKENS}, device.options(DType.INT64));
                NormwiseError.assertAtMost(bound, run(expected, ids, targets), run(got, ids, targets));
                List<Tensor> expectedGradients = gradients(expected);
                List<Tensor> gradients = gradients(got);
                assertEquals(expectedGradients.size(), gradients.size());
                for (int i = 0; i < gradients.size(); i++) {
                    NormwiseError.assertAtMost(bound, expectedGradients.get(i), gradients.get(i));
                }
            }
        }
    }

    private static Tensor run(TransformerLM model, Tensor ids, Tensor targets) {
        model.zeroGrad();
        Tensor loss = model.loss(ids, targets, 8);
        Backward.of(loss).run();
        return loss.detach();
    }

    private static List<Tensor> gradients(TransformerLM model) {
        return model.parameters().stream().map(Tensor::grad).toList();
    }
}
