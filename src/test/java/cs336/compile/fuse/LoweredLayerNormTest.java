package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LoweredLayerNormTest extends ScopedTest {
    private static final double EPS = 1e-5;

    @BeforeEach
    void open() {
        Torch.seed(System.nanoTime());
    }

    /** The norm of input 0 with the weight and the bias that follow it, its result, and their gradients. */
    private static TensorFunction bothPasses(boolean isAffine, int normalizedDims) {
        return in -> {
            Tensor[] leaves = new Tensor[isAffine ? 3 : 1];
            for (int i = 0; i < leaves.length; i++) {
                leaves[i] = in[i].detach().set_requires_grad(true);
            }
            long[] shape = new long[normalizedDims];
            for (int i = 0; i < normalizedDims; i++) {
                shape[i] = in[0].size(in[0].dim() - normalizedDims + i);
            }
            Tensor y = torch.layer_norm(
                    leaves[0],
                    shape,
                    isAffine ? new TensorOptional(leaves[1]) : new TensorOptional(),
                    isAffine ? new TensorOptional(leaves[2]) : new TensorOptional(),
                    EPS,
                    false);
            List<Tensor> all = new ArrayList<>(List.of(y.detach()));
            all.addAll(Arrays.asList(Backward.of(y).with(in[leaves.length]).gradients(leaves)));
            return all.toArray(new Tensor[0]);
        };
    }

    private static Tensor[] inputs(Device device, DType dtype, boolean isAffine, int normalizedDims, long... shape) {
        // In fp32, a mean that is large compared with the standard deviation, which the variance must not suffer from.
        double mean = dtype.bytes() < Float.BYTES ? 0.5 : 20;
        Tensor x = torch.randn(shape, device.options(dtype)).add(new Scalar(mean));
        Tensor dy = torch.randn(shape, device.options(dtype));
        long[] last = Arrays.copyOfRange(shape, shape.length - normalizedDims, shape.length);
        return isAffine
                ? new Tensor[] {
                    x, torch.randn(last, device.options(dtype)), torch.randn(last, device.options(dtype)), dy
                }
                : new Tensor[] {x, dy};
    }

    private static void agree(Device device, DType dtype, boolean isAffine, int normalizedDims, long... shape) {
        Tensor[] in = inputs(device, dtype, isAffine, normalizedDims, shape);
        TensorFunction function = bothPasses(isAffine, normalizedDims);
        Tensor[] doubles = Arrays.stream(in).map(x -> x.to(ScalarType.Double)).toArray(Tensor[]::new);
        Tensor[] exact = function.apply(doubles);
        Program recorded = Recorder.record(function, in);
        // On the CPU, PyTorch rounds the statistics of bf16 inputs to bf16.
        double bound = dtype.bytes() < Float.BYTES ? 8e-3 : dtype == DType.FLOAT64 ? 1e-13 : 5e-6;
        FusionPasses.stages(recorded, device).forEach((stage, program) -> {
            Tensor[] got = new Interpreter(program).run(in);
            for (int i = 0; i < exact.length; i++) {
                double error = got[i].to(ScalarType.Double).sub(exact[i]).norm().item_double();
                double size = exact[i].norm().item_double();
                assertTrue(error <= bound * size, stage + ", output " + i + ": " + error / size);
                assertEquals(dtype, DType.of(got[i]));
            }
            boolean isCall = program.toString().contains("native_layer_norm");
            assertEquals(stage.equals("recorded") || stage.equals("attention"), isCall, stage);
        });
    }

    @ParameterizedTest
    @CsvSource({"FLOAT32, true", "FLOAT32, false", "FLOAT64, true", "BFLOAT16, true", "BFLOAT16, false"})
    void bothPassesAgreeWithFp64(DType dtype, boolean isAffine) {
        agree(Device.cpu(), dtype, isAffine, 1, 7, 48);
        agree(Device.cpu(), dtype, isAffine, 1, 2, 3, 48);
        agree(Device.cpu(), dtype, isAffine, 2, 5, 4, 6);
        agree(Device.cpu(), dtype, isAffine, 1, 1, 33);
    }

    @ParameterizedTest
    @CsvSource({"FLOAT32, true", "FLOAT32, false", "FLOAT64, true", "BFLOAT16, true", "FLOAT16, true"})
    @Tag("gpu")
    void generatedKernelsAgreeWithFp64OnAGpu(DType dtype, boolean isAffine) {
        agree(Device.cuda(0), dtype, isAffine, 1, 70, 48);
        agree(Device.cuda(0), dtype, isAffine, 1, 2, 30, 1_000);
        agree(Device.cuda(0), dtype, isAffine, 2, 50, 4, 6);
    }

    @Test
    void aNormOfOneRowWithoutLeadingDimensionsStaysACallInTheBackwardPass() {
        Tensor[] in = inputs(Device.cpu(), DType.FLOAT32, true, 1, 48);
        Program recorded = Recorder.record(bothPasses(true, 1), in);
        assertTrue(FusionPasses.prepare(recorded, Device.cpu()).toString().contains("native_layer_norm_backward"));
    }

    @Test
    void oneKernelPerPassSavesTwoNumbersPerRow() {
        Tensor[] in = inputs(Device.cpu(), DType.FLOAT32, true, 1, 7, 48);
        Program joint = Recorder.record(bothPasses(true, 1), in);
        Partition parts = Partition.of(FusionPasses.prepare(joint, Device.cpu()), 3, 1)
                .orElseThrow()
                .fused(Device.cpu());
        assertEquals(
                1, parts.forward().operations().size(), () -> parts.forward().toString());
        List<Layout> saved = parts.forward().outputs().stream()
                .skip(1)
                .map(view -> view.value())
                .filter(value -> !parts.forward().inputs().contains(value))
                .map(value -> value.layout())
                .toList();
        Layout perRow = Layout.contiguous(DType.FLOAT32, 7, 1);
        assertEquals(List.of(perRow, perRow), saved, () -> parts.forward().toString());
        // One kernel for the rows, and one or two for the sums over the rows.
        assertTrue(
                parts.backward().operations().size() <= 3,
                () -> parts.backward().toString());
    }
}
