package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.checkpointing.BlockBytes;
import cs336.checkpointing.CheckpointPolicy;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.GradientHooks;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class CheckpointedTransformerTest extends ScopedTest {
    private static final int LAYERS = 5;
    private static final BlockBytes BLOCK = new BlockBytes(100, 40, 10, 30, 20);
    private static final List<CheckpointPolicy> WHOLE_BLOCKS =
            List.of(CheckpointPolicy.nothing(), CheckpointPolicy.blocks(2), CheckpointPolicy.recursive());
    private static final List<CheckpointPolicy> FEED_FORWARD = List.of(
            CheckpointPolicy.allButFeedForward(),
            CheckpointPolicy.elementwise(0),
            CheckpointPolicy.elementwise(2),
            CheckpointPolicy.offloading(2),
            CheckpointPolicy.offloading(LAYERS),
            CheckpointPolicy.budget(380, BLOCK),
            CheckpointPolicy.budget(200, BLOCK));

    private static TransformerConfig config(ModelEdition edition) {
        return TransformerConfig.builder()
                .edition(edition)
                .vocabSize(50)
                .contextLength(12)
                .dModel(16)
                .numLayers(LAYERS)
                .numHeads(2)
                .dFf(32)
                .normalization("rmsnorm")
                .attention("plain")
                .build();
    }

    /** Loss and gradients by name of a model with these values. */
    private static Map<String, double[]> gradients(
            TransformerConfig config, Map<String, Tensor> values, Device device, DType dtype, DType autocast) {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, device, dtype)) {
            model.load(values);
            Batches.Batch batch = Batches.random(50, 3, 12, device, 1).next();
            Tensor loss;
            try (var narrow = Autocast.of(device, autocast)) {
                loss = Losses.crossEntropy(model.forward(batch.inputs()), batch.targets());
            }
            loss.backward();
            var all = new LinkedHashMap<String, double[]>();
            all.put("loss", Tensors.toDoubles(loss));
            model.namedParameters().forEach((name, p) -> all.put(name, Tensors.toDoubles(p.grad())));
            return all;
        }
    }

    private static void requireSame(
            ModelEdition edition, Device device, DType dtype, DType autocast, List<CheckpointPolicy> policies) {
        TransformerConfig plain = config(edition);
        try (var source = new TransformerLM(plain, device, dtype)) {
            Map<String, Tensor> values = source.namedParameters();
            Map<String, double[]> expected = gradients(plain, values, device, dtype, autocast);
            for (CheckpointPolicy policy : policies) {
                Map<String, double[]> actual =
                        gradients(plain.withCheckpointing(policy), values, device, dtype, autocast);
                expected.forEach((name, e) -> {
                    if (policies == WHOLE_BLOCKS) {
                        assertArrayEquals(e, actual.get(name), policy + " " + name);
                    } else {
                        assertArrayEquals(e, actual.get(name), 1e-14, policy + " " + name);
                    }
                });
            }
        }
    }

    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void recomputedBlocksComputeTheSameBits(ModelEdition edition) {
        requireSame(edition, Device.cpu(), DType.FLOAT64, DType.FLOAT32, WHOLE_BLOCKS);
        requireSame(edition, Device.cpu(), DType.FLOAT32, DType.FLOAT32, WHOLE_BLOCKS);
        requireSame(edition, Device.cpu(), DType.FLOAT32, DType.BFLOAT16, WHOLE_BLOCKS);
    }

    /** The gradients of the feed-forward layer's input are accumulated in another order. */
    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void recomputedFeedForwardLayersComputeTheSame(ModelEdition edition) {
        requireSame(edition, Device.cpu(), DType.FLOAT64, DType.FLOAT32, FEED_FORWARD);
    }

    @Test
    @Tag("gpu")
    void recomputedBlocksComputeTheSameOnAGpu() {
        var all = new ArrayList<>(WHOLE_BLOCKS); // with a tolerance: the embedding's gradient uses atomic additions
        all.addAll(FEED_FORWARD);
        for (ModelEdition edition : ModelEdition.values()) {
            requireSame(edition, Device.cuda(0), DType.FLOAT64, DType.FLOAT32, all);
        }
    }

    @Test
    void everyParameterIsReadyOnceInABackwardPassAndTheFirstBlocksLast() {
        try (var model = new TransformerLM(
                config(ModelEdition.SPRING_2024).withCheckpointing(CheckpointPolicy.recursive()), Device.cpu())) {
            Batches.Batch batch = Batches.random(50, 3, 12, Device.cpu(), 1).next();
            List<String> names = new ArrayList<>(model.namedParameters().keySet());
            var ready = new ArrayList<String>();
            try (var hooks = GradientHooks.of(model.parameters(), i -> {}, i -> ready.add(names.get(i)))) {
                for (int pass = 0; pass < 2; pass++) {
                    ready.clear();
                    Losses.crossEntropy(model.forward(batch.inputs()), batch.targets())
                            .backward();
                    hooks.flush();
                    assertEquals(names.size(), ready.size());
                    assertEquals(new HashSet<>(names), new HashSet<>(ready));
                }
            }
        }
    }

    @Test
    void thePolicyIsASettingOfTheConfiguration() {
        TransformerConfig config = config(ModelEdition.SPRING_2025);
        assertEquals(CheckpointPolicy.everything(), config.checkpointing());
        TransformerConfig blocks = config.withCheckpointing(CheckpointPolicy.blocks(2));
        assertEquals(
                CheckpointPolicy.blocks(2), blocks.toBuilder().dFf(64).build().checkpointing());
        assertEquals(config.parameterCount(), blocks.parameterCount());
    }
}
