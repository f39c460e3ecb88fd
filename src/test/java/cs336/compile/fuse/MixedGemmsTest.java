package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class MixedGemmsTest extends ScopedTest {
    private static final Device CPU = Device.cpu();
    private static final Tf32Gemms NO_TF32 = new Tf32Gemms(0);
    private static final MixedGemms ONE_CLUSTER = new MixedGemms(2);

    private static long count(Program program, String operator) {
        return program.operations().stream()
                .filter(operation -> operation.operator().toString().equals(operator))
                .count();
    }

    private static Tensor cast(Tensor x) {
        return x.to(DType.BFLOAT16.scalarType());
    }

    /** Multiplies a 16-bit X with casts of fp32 weights Wᵢ, and returns a number that depends on all products. */
    private static Tensor layers(Tensor... in) {
        Tensor x = cast(in[0].neg());
        Tensor sum = null;
        for (int i = 1; i < in.length; i++) {
            Tensor product = x.mm(cast(in[i]).t())
                    .to(DType.FLOAT32.scalarType())
                    .sigmoid()
                    .mean();
            sum = sum == null ? product : sum.add(product);
        }
        return sum;
    }

    private static Program merged(TensorFunction function, Tensor... inputs) {
        Program prepared = FusionPasses.prepare(Recorder.record(function, inputs), CPU);
        Program program = FusionPasses.fusePrepared(GemmMerging.of(prepared, CPU, NO_TF32, ONE_CLUSTER), CPU);
        for (Tensor input : inputs) {
            input.normal_();
        }
        Tensor expected = function.apply(inputs)[0];
        Tensor found = new Interpreter(program).run(inputs)[0];
        assertTrue(torch.allclose(expected, found, 1e-2, 1e-2, false), program.toString());
        return program;
    }

    private static Program ofLayers(long rows, long depth, long... columns) {
        Tensor[] inputs = new Tensor[1 + columns.length];
        Arrays.setAll(inputs, i -> i == 0 ? torch.randn(rows, depth) : torch.randn(columns[i - 1], depth));
        TensorFunction function = in -> {
            try (var scope = MemoryScope.open()) {
                return new Tensor[] {scope.escape(layers(in))};
            }
        };
        return merged(function, inputs);
    }

    @Test
    void castsOfWeightsAreNotStored() {
        Program program = ofLayers(512, 640, 128, 128, 128);
        assertEquals(1, count(program, "gemm_mixed"), program.toString());
        assertEquals(0, count(program, "mm"), program.toString());
        long stored = program.operations().stream()
                .filter(operation -> Arrays.equals(operation.output().shape(), new long[] {128, 640}))
                .count();
        assertEquals(0, stored, program.toString());
    }

    @Test
    void weightsOfDifferentSizesAreReadOneByOne() {
        assertEquals(2, count(ofLayers(512, 640, 128, 256), "gemm_mixed"));
        assertEquals(4, count(ofLayers(512, 640, 128, 128, 128, 128), "gemm_mixed"), "more than three weights");
    }

    @Test
    void fewRowsAndUnalignedRowsAreLeftToCublas() {
        assertEquals(0, count(ofLayers(64, 640, 128, 128), "gemm_mixed"), "few rows");
        assertEquals(0, count(ofLayers(512, 636, 128, 128), "gemm_mixed"), "rows of the operands");
        assertEquals(0, count(ofLayers(512, 640, 124), "gemm_mixed"), "rows of the weight");
    }

    @Test
    void aCastWithOtherReadersIsStored() {
        TensorFunction function = in -> {
            try (var scope = MemoryScope.open()) {
                Tensor w = cast(in[1]);
                Tensor product = cast(in[0]).mm(w.t());
                return new Tensor[] {scope.escape(product.mm(w))};
            }
        };
        Program program = merged(
                function, torch.randn(512, 640), torch.randn(128, 640).div(new org.bytedeco.pytorch.Scalar(25.0)));
        assertEquals(0, count(program, "gemm_mixed"), program.toString());
    }
}
