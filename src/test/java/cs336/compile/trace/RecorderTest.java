package cs336.compile.trace;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import org.bytedeco.pytorch.GeneratorOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorOptionalList;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class RecorderTest extends ScopedTest {
    /** Autocast keeps casts of parameters until the outermost autocast ends. */
    @Test
    void aProgramReadsParametersAndNotTheirCastsOfEarlierCalls() {
        Tensor x = torch.randn(2, 3);
        Tensor w = torch.randn(3, 4).set_requires_grad(true);
        TensorFunction function = in -> new Tensor[] {in[0].matmul(w)};
        try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
            function.apply(x);
            Program program = Recorder.record(function, x);
            try (var noGrad = NoGrad.open()) {
                w.zero_();
            }
            Tensor got = new Interpreter(program).run(x)[0];
            assertTrue(got.count_nonzero().item_long() == 0, program::toString);
        }
    }

    @Test
    void anOperatorWithAListOfOptionalTensorsIsRefused() {
        TensorFunction function = in -> {
            var indices = new TensorOptionalList();
            indices.push_back(new TensorOptional(in[1]));
            return new Tensor[] {torch.index_put(in[0], indices, in[2])};
        };
        Tensor[] inputs = {torch.randn(4), torch.tensor(2L, 0L), torch.randn(2)};
        var e = assertThrows(UnrecordableException.class, () -> Recorder.record(function, inputs));
        assertTrue(e.getMessage().contains("index_put has an argument that cannot be recorded"), e.getMessage());
    }

    @Test
    void anOperatorWithAGeneratorIsRefused() {
        var generator = new GeneratorOptional(torch.make_generator_cpu(1));
        TensorFunction function = in -> new Tensor[] {torch.bernoulli(in[0], generator)};
        var e = assertThrows(UnrecordableException.class, () -> Recorder.record(function, torch.rand(4)));
        assertTrue(e.getMessage().contains("bernoulli has an argument that cannot be recorded"), e.getMessage());
    }
}
