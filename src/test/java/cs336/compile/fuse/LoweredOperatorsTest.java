package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Operators whose dtype, shape or numbers a lowering rule must treat separately. */
class LoweredOperatorsTest extends ScopedTest {
    private static final long ABOVE_FLOAT = (1L << 24) + 1; // the smallest integer that fp32 does not represent
    private static final long ABOVE_INT = (1L << 40) + 1;

    private NoGrad noGrad;

    @BeforeEach
    void open() {
        noGrad = NoGrad.open();
    }

    @AfterEach
    void close() {
        noGrad.close();
    }

    /**
     * Checks that the program after each pass computes exactly what the function does, and that its kernels compile.
     */
    private static void assertComputes(TensorFunction function, Tensor... inputs) {
        Tensor[] expected = function.apply(inputs);
        Program recorded = Recorder.record(function, inputs);
        Map<String, Program> stages = FusionPasses.stages(recorded, Device.cpu());
        stages.forEach((stage, program) -> {
            Tensor[] got = new Interpreter(program).run(inputs);
            for (int i = 0; i < expected.length; i++) {
                assertEquals(DType.of(expected[i]), DType.of(got[i]), stage + ", output " + i);
                assertTrue(torch.equal(expected[i], got[i]), stage + ", output " + i + "\n" + program);
            }
        });
        FusionPasses.sources(stages.get("fused"))
                .values()
                .forEach(source -> KernelCompiler.shared()
                        .compile(KernelSource.of(FusedKernel.FILE, source), Map.of(), GpuArchitecture.parse("sm_90a")));
    }

    private static Tensor integers(DType dtype, long... values) {
        return Tensors.of(values, values.length).to(dtype.scalarType());
    }

    @Test
    void aMeanWithoutTheReducedDimensionIsLowered() {
        Tensor x = torch.arange(new Scalar(24)).to(DType.FLOAT32.scalarType()).reshape(2, 3, 4);
        for (long[] dims : new long[][] {{0}, {1}, {-1}, {0, 2}, {0, 1, 2}}) {
            assertComputes(in -> new Tensor[] {in[0].mean(dims, false, new ScalarTypeOptional())}, x);
            assertComputes(in -> new Tensor[] {in[0].mean(dims, false, new ScalarTypeOptional())}, x.transpose(0, 2));
        }
    }

    @Test
    void integersKeepAllBits() {
        TensorFunction function = in -> new Tensor[] {
            in[0].clone().contiguous(),
            in[0].neg(),
            in[0].abs(),
            torch.maximum(in[0], in[1]),
            torch.minimum(in[0], in[1]),
            torch.where(in[0].gt(in[1]), in[0], in[1]),
            torch.relu(in[0]),
            in[0].to(DType.INT64.scalarType()),
            in[0].square()
        };
        for (DType dtype : new DType[] {DType.INT64, DType.INT32}) {
            long large = dtype == DType.INT64 ? ABOVE_INT : ABOVE_FLOAT;
            assertComputes(function, integers(dtype, large, -large, large - 1), integers(dtype, large - 1, 7, large));
        }
        assertComputes(function, integers(DType.UINT8, 0, 1, 255), integers(DType.UINT8, 1, 128, 0));
    }

    @Test
    void integersAreComparedExactly() {
        for (DType dtype : new DType[] {DType.INT64, DType.INT32}) {
            assertComputes(
                    in -> new Tensor[] {in[0].lt(in[1]), in[0].eq(in[1]), in[0].eq(new Scalar(ABOVE_FLOAT))},
                    integers(dtype, ABOVE_FLOAT - 1, ABOVE_FLOAT, ABOVE_FLOAT),
                    integers(dtype, ABOVE_FLOAT, ABOVE_FLOAT, ABOVE_FLOAT - 1));
        }
    }

    @Test
    void integersAreComparedWithFractions() {
        assertComputes(
                in -> new Tensor[] {in[0].lt(new Scalar(2.5)), in[0].ge(in[1]), in[1].gt(in[0])},
                integers(DType.INT64, 1, 2, 3),
                Tensors.of(new float[] {0.5f, 2.5f, 3.5f}, 3));
    }

    @Test
    void numbersMayBeTooLargeForTheDtype() {
        assertComputes(
                in -> new Tensor[] {
                    in[0].add(new Scalar(1e300)).reciprocal(),
                    in[0].mul(new Scalar(-1e300)),
                    in[0].lt(new Scalar(1e300)),
                    in[0].mul(new Scalar(1e-300))
                },
                Tensors.of(new float[] {1, -2, 3}, 3));
    }
}
