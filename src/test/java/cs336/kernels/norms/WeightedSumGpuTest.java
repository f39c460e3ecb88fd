package cs336.kernels.norms;

import static cs336.kernels.Closeness.assertClose;
import static cs336.kernels.Closeness.largest;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.kernels.runtime.KernelLog;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

@Tag("gpu")
class WeightedSumGpuTest {
    private static Stream<Arguments> widthsAndTypes() {
        List<Arguments> all = new ArrayList<>();
        for (int width : new int[] {1, 7, 50, 512, 1024, 4097, 65536}) {
            for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)) {
                all.add(Arguments.of(width, type));
            }
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource("widthsAndTypes")
    void sumsAndGradientsEqualDoubles(int width, DType type) {
        Device device = Device.cuda(0);
        Torch.seed(1);
        try (var scope = MemoryScope.open();
                var log = KernelLog.open()) {
            int rows = width > 10_000 ? 99 : 3 * 1001;
            Tensor x = random(device, type, 3, rows / 3, width).set_requires_grad(true);
            Tensor weight = random(device, type, width).set_requires_grad(true);
            Tensor dy = random(device, type, 3, rows / 3);
            torch.full(new long[] {(long) rows * width}, new Scalar(Double.NaN), device.options(type))
                    .close();
            Tensor y = WeightedSum.apply(x, weight);
            Backward.of(y).with(dy).run();
            assertEquals(
                    List.of("weighted_sum_forward", "weighted_sum_backward", "column_sum"),
                    log.entries().stream().map(KernelLog.KernelLogEntry::name).toList());

            double[] xs = Tensors.toDoubles(x), ws = Tensors.toDoubles(weight), dys = Tensors.toDoubles(dy);
            double[] expected = new double[rows], dx = new double[rows * width], dw = new double[width];
            double largestTerm = largest(xs) * largest(ws);
            for (int r = 0; r < rows; r++) {
                for (int h = 0; h < width; h++) {
                    expected[r] += xs[r * width + h] * ws[h];
                    dx[r * width + h] = dys[r] * ws[h];
                    dw[h] += dys[r] * xs[r * width + h];
                }
            }
            double rounding = type == DType.FLOAT32 ? 2e-6 : Math.pow(2, type == DType.BFLOAT16 ? -8 : -10);
            double tiny = type == DType.FLOAT16 ? Math.pow(2, -24) : 0;
            assertClose("y", expected, Tensors.toDoubles(y), rounding, 1e-6 * Math.sqrt(width) * largestTerm + tiny);
            assertClose("dx", dx, Tensors.toDoubles(x.grad()), rounding, tiny);
            assertClose("dw", dw, Tensors.toDoubles(weight.grad()), rounding, 2e-6 * largest(dw) + tiny);
        }
    }

    private static Tensor random(Device device, DType type, long... shape) {
        return torch.randn(shape, device.options(DType.FLOAT32)).to(type.scalarType());
    }
}
