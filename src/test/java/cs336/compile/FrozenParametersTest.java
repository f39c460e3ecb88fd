package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.ModelEdition;
import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.DoubleStream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class FrozenParametersTest {
    private static final int STEPS = 6;

    /** Returns all parameters after steps in which some of them are frozen at first or later. */
    private static double[] train(ModelEdition edition, boolean fuse) {
        TransformerConfig config = TinyConfig.of(edition);
        Torch.seed(3);
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, Device.cpu());
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-2));
                var step = CompiledStep.of(model, optimizer, Precision.FP32).clip(0.5)) {
            if (fuse) {
                step.fuse();
            }
            Tensor ids = Tensors.of(new long[] {1, 2, 3, 4, 5, 6}, 2, 3);
            for (int i = 0; i < STEPS; i++) {
                model.parameters().get(0).set_requires_grad(i >= 2);
                model.parameters().get(1).set_requires_grad(i < 2 || i >= 4);
                List<double[]> before = values(model);
                List<Boolean> trainable =
                        model.parameters().stream().map(Tensor::requires_grad).toList();
                step.run(ids, ids);
                List<double[]> after = values(model);
                for (int p = 0; p < before.size(); p++) {
                    boolean hasChanged = !Arrays.equals(before.get(p), after.get(p));
                    assertEquals(trainable.get(p), hasChanged, "parameter " + p + " in step " + i);
                }
            }
            return values(model).stream().flatMapToDouble(DoubleStream::of).toArray();
        }
    }

    /** Returns the values of each parameter. */
    private static List<double[]> values(TransformerLM model) {
        return model.parameters().stream().map(Tensors::toDoubles).toList();
    }

    @ParameterizedTest
    @EnumSource
    void aFusedStepTrainsTheSameParametersAsAPlainOne(ModelEdition edition) {
        assertArrayEquals(train(edition, false), train(edition, true));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aStepRefusesParametersThatTheOptimizerGotLater(boolean fuse) {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(TinyConfig.of(ModelEdition.SPRING_2025), Device.cpu())) {
            Map<String, Tensor> first = new LinkedHashMap<>(model.namedParameters());
            Map<String, Tensor> later = new LinkedHashMap<>(first);
            first.values().removeIf(parameter -> parameter.dim() < 2);
            later.keySet().removeAll(first.keySet());
            try (var optimizer = new AdamW(first, AdamWSettings.of(1e-2));
                    var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
                if (fuse) {
                    step.fuse();
                }
                Tensor ids = Tensors.of(new long[] {1, 2, 3, 4, 5, 6}, 2, 3);
                step.run(ids, ids);
                optimizer.add(later, AdamWSettings.of(1e-2).withWeightDecay(0));
                List<double[]> before = values(model);
                for (Executable use : List.<Executable>of(() -> step.run(ids, ids), () -> step.accumulate(ids, ids))) {
                    var e = assertThrows(IllegalStateException.class, use);
                    assertTrue(e.getMessage().contains("create a new step"), e.getMessage());
                }
                List<double[]> after = values(model);
                for (int p = 0; p < before.size(); p++) {
                    assertArrayEquals(before.get(p), after.get(p));
                }
            }
        }
    }
}
