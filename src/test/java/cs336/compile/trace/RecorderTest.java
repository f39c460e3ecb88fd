package cs336.compile.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class RecorderTest {
    @Test
    void aTrainingStepIsReplayedBitForBit() {
        try (var scope = MemoryScope.open()) {
            var config = new TransformerConfig(ModelEdition.SPRING_2025, 32, 8, 16, 2, 2, 32, "rmsnorm", "plain");
            Torch.seed(1);
            var model = new TransformerLM(config, Device.cpu());
            Tensor[] parameters = model.parameters().toArray(new Tensor[0]);
            TensorFunction step = inputs -> {
                try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                    Tensor loss = Losses.crossEntropy(model.forward(inputs[0]), inputs[1]);
                    List<Tensor> all = new ArrayList<>(List.of(loss));
                    all.addAll(List.of(Backward.of(loss).gradients(parameters)));
                    return all.toArray(new Tensor[0]);
                }
            };
            long[] shape = {2, 8};
            Tensor ids = torch.randint(32, shape, Device.cpu().options(DType.INT64));
            Tensor targets = torch.randint(32, shape, Device.cpu().options(DType.INT64));
            step.apply(ids, targets);
            var results = new AtomicReference<Tensor[]>();
            Program program = Recorder.record(step, model.namedParameters(), results, ids, targets);
            System.out.println(program);
            var interpreter = new Interpreter(program);
            for (int i = 0; i < 3; i++) {
                ids = torch.randint(32, shape, Device.cpu().options(DType.INT64));
                targets = torch.randint(32, shape, Device.cpu().options(DType.INT64));
                Tensor[] expected = step.apply(ids, targets);
                Tensor[] got = interpreter.run(ids, targets);
                assertEquals(expected.length, got.length);
                for (int j = 0; j < got.length; j++) {
                    assertTrue(torch.equal(expected[j], got[j]), "output " + j);
                }
            }
        }
    }
}
