package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.GeneratorOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Initial values of parameters. */
final class Initialization {
    private static final double CUT = 3; // standard deviations
    /** P(|z| < 3) = erf(3/√2) for a standard normal z. */
    private static final double MASS_INSIDE_CUT = 0.997300203936740;

    private Initialization() {}

    /**
     * Returns normal values with mean 0, truncated at ±3 standard deviations. Uses the inverse distribution function:
     * if u is uniform in (−erf(3/√2), erf(3/√2)), √2·erf⁻¹(u) is a standard normal truncated to (−3, 3).
     */
    static Tensor truncatedNormal(double std, Device device, DType dtype, long... shape) {
        Tensors.requireFloating("dtype", dtype);
        try (var scope = MemoryScope.open()) {
            Tensor values = torch.empty(shape, device.options(dtype), null);
            values.uniform_(-MASS_INSIDE_CUT, MASS_INSIDE_CUT, new GeneratorOptional());
            values.erfinv_();
            values.mul_(new Scalar(std * Math.sqrt(2)));
            var bound = new Scalar(CUT * std);
            values.clamp_(new ScalarOptional(new Scalar(-CUT * std)), new ScalarOptional(bound));
            return scope.escape(values);
        }
    }

    /** Returns a weight matrix [out, in] with variance 2 ÷ (in + out) before truncation, as the course specifies. */
    static Tensor matrix(int out, int in, Device device, DType dtype) {
        return truncatedNormal(Math.sqrt(2.0 / ((double) in + out)), device, dtype, out, in);
    }

    static Tensor ones(int size, Device device, DType dtype) {
        return torch.ones(new long[] {size}, device.options(dtype));
    }

    static Tensor zeros(int size, Device device, DType dtype) {
        return torch.zeros(new long[] {size}, device.options(dtype));
    }
}
