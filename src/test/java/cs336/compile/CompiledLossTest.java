package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.ModelEdition;
import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Compiled steps that compute the loss for some tokens at a time. */
class CompiledLossTest {
    private static final int STEPS = 6;
    private static final TransformerConfig CONFIG =
            TinyConfig.of(ModelEdition.SPRING_2025).withCheckpointing(CheckpointPolicy.blocks(1));

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void lossesAreThoseOfAllLogits(boolean fuse) {
        assertArrayEquals(
                losses(Device.cpu(), Precision.FP32, fuse, 0), losses(Device.cpu(), Precision.FP32, fuse, 5), 1e-5);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void lossesInBf16AreThoseOfAllLogitsWithinItsRounding(boolean fuse) {
        double[] expected = losses(Device.cpu(), Precision.BF16, fuse, 0);
        assertArrayEquals(expected, losses(Device.cpu(), Precision.BF16, fuse, 5), 0.02);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    @Tag("gpu")
    void lossesAreThoseOfAllLogitsInACudaGraph(boolean fuse) {
        assertArrayEquals(
                losses(Device.cuda(0), Precision.FP32, fuse, 0), losses(Device.cuda(0), Precision.FP32, fuse, 5), 1e-4);
    }

    private static double[] losses(Device device, Precision precision, boolean fuse, int rows) {
        double[] losses = new double[STEPS];
        Torch.seed(3);
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(CONFIG, device);
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-2));
                var step = CompiledStep.of(model, optimizer, precision)) {
            assertThrows(IllegalArgumentException.class, () -> step.lossRows(0));
            if (fuse) {
                step.fuse();
            }
            if (rows > 0) {
                step.lossRows(rows);
            }
            for (int i = 0; i < STEPS; i++) {
                Batches.Batch batch = Batches.random(50, 2, 8, device, i).next();
                losses[i] = step.run(batch.inputs(), batch.targets()).item_double();
            }
        }
        return losses;
    }
}
