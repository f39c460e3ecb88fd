package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
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

class Tf32GemmsTest extends ScopedTest {
    private static final Device CPU = Device.cpu();
    private static final Tf32Gemms ONE_CLUSTER = new Tf32Gemms(2);

    private static Tensor random(DType type, long... shape) {
        return torch.randn(shape, CPU.options(type));
    }

    private static long count(Program program, String operator) {
        return program.operations().stream()
                .filter(operation -> operation.operator().toString().equals(operator))
                .count();
    }

    /** Records products of the exponential of X with Wᵢᵀ, from which the outputs are computed, and replaces some. */
    private static Program ofLayers(Tensor... inputs) {
        TensorFunction layers = in -> {
            try (var scope = MemoryScope.open()) {
                Tensor x = in[0].neg();
                Tensor sum = null;
                for (int i = 1; i < in.length; i++) {
                    Tensor product = x.mm(in[i].t()).sigmoid().mean();
                    sum = sum == null ? product : sum.add(product);
                }
                return new Tensor[] {scope.escape(sum)};
            }
        };
        Program prepared = FusionPasses.prepare(Recorder.record(layers, inputs), CPU);
        Program program = ONE_CLUSTER.of(
                FusionPasses.fusePrepared(GemmMerging.of(prepared, CPU, ONE_CLUSTER, new MixedGemms(0)), CPU));
        for (Tensor input : inputs) {
            input.normal_();
        }
        double tolerance = DType.of(inputs[0]) == DType.FLOAT32 ? 1e-5 : 1e-2;
        Tensor expected = layers.apply(inputs)[0];
        Tensor found = new Interpreter(program).run(inputs)[0];
        assertTrue(torch.allclose(expected, found, tolerance, tolerance, false), program.toString());
        return program;
    }

    private static Program ofLayers(DType type, long rows, long depth, long... columns) {
        Tensor[] inputs = new Tensor[1 + columns.length];
        Arrays.setAll(inputs, i -> i == 0 ? random(type, rows, depth) : random(type, columns[i - 1], depth));
        return ofLayers(inputs);
    }

    @Test
    void multiplicationsWithACommonInputBecomeOne() {
        Program program = ofLayers(DType.FLOAT32, 256, 64, 96, 96, 96);
        assertEquals(1, count(program, "gemm_tf32"), program.toString());
        assertEquals(0, count(program, "mm"), program.toString());
    }

    @Test
    void othersAreReplacedOneByOne() {
        assertEquals(
                4, count(ofLayers(DType.FLOAT32, 256, 64, 96, 96, 96, 96), "gemm_tf32"), "more than three weights");
        assertEquals(2, count(ofLayers(DType.FLOAT32, 256, 64, 96, 192), "gemm_tf32"), "weights of different sizes");
        assertEquals(2, count(ofLayers(DType.FLOAT32, 256, 64, 100, 100), "gemm_tf32"), "no tiles of one weight");
    }

    @Test
    void otherDtypesFewRowsAndUnalignedRowsAreLeftToCublas() {
        assertEquals(0, count(ofLayers(DType.BFLOAT16, 256, 64, 96, 96), "gemm_tf32"));
        assertEquals(0, count(ofLayers(DType.FLOAT32, 100, 64, 96, 96), "gemm_tf32"), "few rows");
        assertEquals(0, count(ofLayers(DType.FLOAT32, 256, 62, 96, 96), "gemm_tf32"), "rows of the operands");
        assertEquals(0, count(ofLayers(DType.FLOAT32, 256, 64, 94), "gemm_tf32"), "rows of the result");
    }

    @Test
    void onlyTransposedWeightsAreReplaced() {
        Program recorded = Recorder.record(
                in -> new Tensor[] {in[0].mm(in[1]), in[0].t().mm(in[1])},
                random(DType.FLOAT32, 256, 256),
                random(DType.FLOAT32, 256, 256));
        assertEquals(0, count(ONE_CLUSTER.of(FusionPasses.prepare(recorded, CPU)), "gemm_tf32"));
    }

    @Test
    void programsForTheCpuStayAsTheyAre() {
        Program program = FusionPasses.prepare(
                Recorder.record(in -> new Tensor[] {in[0].mm(in[0].t())}, random(DType.FLOAT32, 256, 256)), CPU);
        assertSame(program, Tf32Gemms.on(CPU).of(program));
    }
}
