package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.kernels.gemm.Fp32Gemm;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class Fp32GemmsTest extends ScopedTest {
    private static Tensor random(DType type, long... shape) {
        return torch.randn(shape, Device.cpu().options(type));
    }

    private static long replaced(Program program) {
        return program.operations().stream()
                .filter(operation -> operation.operator().toString().startsWith("gemm_fp32"))
                .count();
    }

    /** Records x · wᵀ and its gradients, and replaces what is large for one multiprocessor. */
    private static Program ofLinear(Fp32Emulation emulation, Tensor x, Tensor w, Tensor g) {
        Program recorded = Recorder.record(
                in -> new Tensor[] {
                    in[0].mm(in[1].t()), in[2].mm(in[1]), in[2].t().mm(in[0])
                },
                x,
                w,
                g);
        return Fp32Gemms.of(FusionPasses.prepare(recorded, Device.cpu()), new Fp32Gemm(emulation), 2);
    }

    @Test
    void largeMultiplicationsAreReplacedAndComputeTheSame() {
        Tensor[] inputs = {
            random(DType.FLOAT32, 512, 768), random(DType.FLOAT32, 768, 768), random(DType.FLOAT32, 512, 768)
        };
        Program program = ofLinear(Fp32Emulation.TF32_X3, inputs[0], inputs[1], inputs[2]);
        assertEquals(3, replaced(program), program.toString());
        Tensor[] found = new Interpreter(program).run(inputs);
        Tensor[] expected = {
            inputs[0].mm(inputs[1].t()), inputs[2].mm(inputs[1]), inputs[2].t().mm(inputs[0])
        };
        for (int i = 0; i < expected.length; i++) {
            assertTrue(torch.allclose(expected[i], found[i], 1e-4, 1e-4, false), "output " + i);
        }
    }

    @Test
    void otherDtypesSmallMatricesAndUnalignedLinesAreLeftToCublas() {
        assertEquals(3, replacedInLinear(Fp32Emulation.TF32_X3, DType.FLOAT32, 512, 768, 768));
        assertEquals(0, replacedInLinear(Fp32Emulation.TF32_X3, DType.BFLOAT16, 512, 768, 768));
        assertEquals(0, replacedInLinear(Fp32Emulation.TF32_X3, DType.FLOAT32, 128, 64, 128), "small");
        assertEquals(
                0,
                replacedInLinear(Fp32Emulation.TF32_X3, DType.FLOAT32, 512, 766, 768),
                "lines of the right operand, or of the result");
        assertEquals(
                0,
                replacedInLinear(Fp32Emulation.TF32_X3, DType.FLOAT32, 512, 768, 766),
                "lines of the left operand, or of the result");
    }

    /** Returns the number of replaced multiplications of {@link #ofLinear}. */
    private static long replacedInLinear(
            Fp32Emulation emulation, DType type, long rows, long inFeatures, long outFeatures) {
        return replaced(ofLinear(
                emulation,
                random(type, rows, inFeatures),
                random(type, outFeatures, inFeatures),
                random(type, rows, outFeatures)));
    }

    @Test
    void withTf32GradientsAreReplacedIfTheirDepthIsAMultipleOfEight() {
        assertEquals(2, replacedInLinear(Fp32Emulation.TF32, DType.FLOAT32, 2048, 768, 4096));
        assertEquals(1, replacedInLinear(Fp32Emulation.TF32, DType.FLOAT32, 2052, 768, 4096), "the weight's stays");
        assertEquals(1, replacedInLinear(Fp32Emulation.TF32, DType.FLOAT32, 2048, 768, 4100), "the input's stays");
    }

    @Test
    void programsForTheCpuStayAsTheyAre() {
        Program program = FusionPasses.prepare(
                Recorder.record(in -> new Tensor[] {in[0].mm(in[0])}, random(DType.FLOAT32, 512, 512)), Device.cpu());
        assertSame(program, Fp32Gemms.of(program, Device.cpu()));
    }
}
