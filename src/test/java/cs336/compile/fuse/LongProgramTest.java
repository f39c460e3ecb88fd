package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class LongProgramTest {
    /** Returns a function whose operations would all fit into one kernel. */
    private static TensorFunction softmaxes(int count) {
        return in -> {
            try (var scope = MemoryScope.open()) {
                Tensor x = in[0];
                for (int i = 0; i < count; i++) {
                    x = torch.softmax(x, -1).add(in[0]);
                }
                return new Tensor[] {scope.escape(x)};
            }
        };
    }

    private static Program fused(int softmaxes, Tensor x) {
        Program recorded = Recorder.record(softmaxes(softmaxes), x);
        return FusionPasses.fuse(recorded, Device.cpu());
    }

    /** Kernels without a limit compute all earlier operations again after each reduction. */
    @Test
    void sourcesGrowLinearlyWithTheProgram() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor x = torch.randn(4, 16);
            long[] characters = new long[2];
            for (int i = 0; i < 2; i++) {
                characters[i] = FusionPasses.kernels(fused(100 << i, x)).stream()
                        .mapToLong(kernel -> kernel.source().length())
                        .sum();
            }
            assertTrue(characters[1] < 2.5 * characters[0], characters[0] + ", then " + characters[1]);
        }
    }

    @Test
    void aLongProgramComputesTheSameInSeveralKernels() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor x = torch.randn(4, 16);
            Program fused = fused(300, x);
            assertTrue(fused.operations().size() > 1);
            Tensor got = new Interpreter(fused).run(x)[0];
            assertTrue(torch.allclose(softmaxes(300).apply(x)[0], got, 1e-5, 1e-6, false));
        }
    }

    /** Kernels that add up the residual stream from its beginning read the outputs of all earlier blocks. */
    @Test
    void bytesGrowLinearlyWithTheBlocksOfAResidualStream() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor x = torch.randn(64, 32);
            Tensor weight = torch.randn(32, 32).to(DType.BFLOAT16.scalarType());
            long[] bytes = new long[2];
            for (int i = 0; i < 2; i++) {
                int blocks = 10 << i;
                TensorFunction stream = in -> {
                    Tensor y = in[0];
                    for (int block = 0; block < blocks; block++) {
                        Tensor normalized = torch.softmax(y, -1).to(DType.BFLOAT16.scalarType());
                        y = y.add(normalized.matmul(weight));
                    }
                    return new Tensor[] {torch.softmax(y, -1)};
                };
                bytes[i] = FusionPasses.fuse(Recorder.record(stream, x), Device.cpu())
                        .bytesMoved();
            }
            assertTrue(bytes[1] < 2.1 * bytes[0], bytes[0] + ", then " + bytes[1]);
        }
    }
}
