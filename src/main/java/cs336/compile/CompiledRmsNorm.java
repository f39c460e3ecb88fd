package cs336.compile;

import cs336.basics.NnModule;
import cs336.basics.Normalization;
import cs336.basics.RmsNorm;
import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;

/**
 * {@link RmsNorm} compiled, a drop-in replacement with the same parameter {@code weight} [width]: on a GPU each pass
 * runs generated kernels.
 */
public final class CompiledRmsNorm extends NnModule {
    private final Compiled compiled;

    /** Creates a layer for inputs […, width]. */
    public CompiledRmsNorm(int width, double eps, Device device, DType dtype) {
        var plain = new RmsNorm(width, eps, device, dtype);
        share("weight", plain.ownParameters().get(0));
        compiled = Compiled.of(plain);
    }

    @Override
    protected Tensor compute(Tensor input) {
        return compiled.apply(input)[0];
    }

    @Override
    protected void free() {
        compiled.close();
    }

    /** The factory of this layer, registered under the name {@code rmsnorm-compiled}. */
    public static final class CompiledRmsNormFactory implements Normalization {
        @Override
        public String name() {
            return "rmsnorm-compiled";
        }

        @Override
        public NnModule create(int width, double eps, Device device, DType dtype) {
            return new CompiledRmsNorm(width, eps, device, dtype);
        }
    }
}
