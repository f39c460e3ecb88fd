package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Linear;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.DoubleStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/** Low-rank adapters of linear layers. */
class LoraTest extends ScopedTest {
    private static final Device CPU = Device.cpu();

    private static final class Lora extends NnModule {
        private final Linear down;
        private final Linear up;

        Lora(int in, int rank, int out, DType dtype) {
            down = child("lora_A", new Linear(in, rank, CPU, dtype));
            up = child("lora_B", new Linear(rank, out, CPU, dtype));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return up.forward(down.forward(x)).mul(new Scalar(2));
        }
    }

    @Test
    void anAdapterIsAddedToTheOutput() {
        var layer = new Linear(6, 5, true, CPU, DType.FLOAT64);
        Tensor x = torch.randn(new long[] {2, 3, 6}, CPU.options(DType.FLOAT64));
        Tensor plain = layer.forward(x);
        var lora = new Lora(6, 2, 5, DType.FLOAT64);
        layer.adapt(lora);
        assertEquals(
                List.of("weight", "bias", "adapter.lora_A.weight", "adapter.lora_B.weight"),
                List.copyOf(layer.stateDict().keySet()));
        Tensor a = lora.parameters().get(0);
        Tensor b = lora.parameters().get(1);
        Tensor expected = plain.add(x.matmul(a.t()).matmul(b.t()).mul(new Scalar(2)));
        double[] values = Tensors.toDoubles(expected);
        assertArrayEquals(values, Tensors.toDoubles(layer.forward(x)), 1e-13);
        assertArrayEquals(values, Tensors.toDoubles(Linear.jointly(x, layer, layer)[1]), 1e-13);
        Tensor[] parameters = layer.parameters().toArray(new Tensor[0]);
        Tensor[] gradients = Backward.of(expected.sum()).gradients(parameters);
        Tensor[] ofUnread =
                Backward.of(Linear.jointlyUnread(x, layer, layer)[1].sum()).gradients(parameters);
        for (int i = 0; i < parameters.length; i++) {
            assertArrayEquals(Tensors.toDoubles(gradients[i]), Tensors.toDoubles(ofUnread[i]), 1e-12);
        }
        assertThrows(IllegalArgumentException.class, () -> layer.adapt(new Lora(6, 2, 5, DType.FLOAT64)));
        layer.removeAdapter();
        assertArrayEquals(Tensors.toDoubles(plain), Tensors.toDoubles(layer.forward(x)));
        assertEquals(2, layer.parameters().size());
        assertThrows(IllegalArgumentException.class, layer::removeAdapter);
        layer.adapt(new Lora(6, 2, 1, DType.FLOAT64));
        var e = assertThrows(IllegalStateException.class, () -> layer.forward(x));
        assertEquals("the adapter must return the shape [2, 3, 5], not [2, 3, 1]", e.getMessage());
    }

    @Test
    void theOutputHasTheDtypeOfTheLayer() {
        try (var layer = new Linear(6, 5, CPU, DType.BFLOAT16)) {
            var lora = new Lora(6, 2, 5, DType.FLOAT32);
            layer.adapt(new Wide(lora));
            Tensor x = torch.randn(3, 6).to(torch.ScalarType.BFloat16);
            Tensor y = layer.forward(x);
            assertEquals(DType.BFLOAT16, DType.of(y));
            Backward.of(y.sum()).run();
            assertEquals(DType.FLOAT32, DType.of(lora.parameters().get(0).grad()));
        }
    }

    /** An fp32 layer with an input of any dtype. */
    private static final class Wide extends NnModule {
        private final NnModule inner;

        Wide(NnModule inner) {
            this.inner = child("inner", inner);
        }

        @Override
        protected Tensor compute(Tensor x) {
            return inner.forward(x.to(torch.ScalarType.Float));
        }
    }

    /** Trains adapters of all linear layers, and returns their parameters. The others are frozen. */
    private static double[] train(CheckpointPolicy policy, boolean isFused) {
        TransformerConfig config = TinyConfig.of(ModelEdition.SPRING_2025).withCheckpointing(policy);
        Torch.seed(6);
        try (var model = new TransformerLM(config, CPU)) {
            model.parameters().forEach(parameter -> parameter.set_requires_grad(false));
            List<NnModule> layers = model.layers();
            for (NnModule layer : layers) {
                if (layer instanceof Linear linear) {
                    long[] shape = Tensors.shape(linear.ownParameters().get(0));
                    linear.adapt(new Lora((int) shape[1], 2, (int) shape[0], DType.FLOAT32));
                }
            }
            Map<String, Tensor> trainable = new LinkedHashMap<>(model.namedParameters());
            trainable.values().removeIf(parameter -> !parameter.requires_grad());
            assertTrue(trainable.keySet().stream().allMatch(name -> name.contains(".adapter.lora_")));
            try (var optimizer = new AdamW(trainable, AdamWSettings.of(1e-2));
                    var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
                if (isFused) {
                    step.fuse();
                }
                Tensor ids = Tensors.of(new long[] {1, 2, 3, 4, 5, 6}, 2, 3);
                double first = step.run(ids, ids).item_double();
                for (int i = 0; i < 3; i++) {
                    step.run(ids, ids);
                }
                assertTrue(step.run(ids, ids).item_double() < first);
            }
            return trainable.values().stream()
                    .map(Tensors::toDoubles)
                    .flatMapToDouble(DoubleStream::of)
                    .toArray();
        }
    }

    @Test
    void adaptersOfATransformerTrainWithRecomputationAndRecordings() {
        double[] expected = train(CheckpointPolicy.everything(), false);
        assertArrayEquals(expected, train(CheckpointPolicy.everything(), true), 1e-5);
        for (CheckpointPolicy policy : List.of(
                CheckpointPolicy.nothing(), CheckpointPolicy.elementwise(0), CheckpointPolicy.allButFeedForward())) {
            assertArrayEquals(expected, train(policy, false), 1e-5, policy.toString());
            assertArrayEquals(expected, train(policy, true), 1e-5, policy.toString());
        }
    }

    @Test
    void aLossOfSomeRowsAtATimeNeedsAHeadWithoutAdapter() {
        try (var model = new TransformerLM(TinyConfig.of(ModelEdition.SPRING_2025), CPU)) {
            Tensor ids = Tensors.of(new long[] {1, 2, 3}, 1, 3);
            var head = (Linear) model.children().get(model.children().size() - 1);
            long[] shape = Tensors.shape(head.ownParameters().get(0));
            head.adapt(new Lora((int) shape[1], 2, (int) shape[0], DType.FLOAT32));
            var e = assertThrows(IllegalStateException.class, () -> model.loss(ids, ids, 2));
            assertTrue(e.getMessage().contains("without bias and adapter"), e.getMessage());
        }
    }
}
