package cs336.kernels.norms;

import cs336.basics.Fuser.FusedFunction;
import cs336.basics.NnModule;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A layer that calls a function with its input and a parameter {@code weight} [width], initialized to 1. */
final class WeightedLayer extends NnModule {
    private final Tensor weight;
    private final FusedFunction function;

    /** @param function the function of input and weight; the layer closes it */
    WeightedLayer(int width, Device device, DType dtype, FusedFunction function) {
        this.function = function;
        try (var scope = MemoryScope.open()) {
            weight = parameter("weight", torch.ones(new long[] {width}, device.options(dtype)));
        }
    }

    @Override
    protected Tensor compute(Tensor x) {
        return function.apply(x, weight);
    }

    @Override
    protected void free() {
        function.close();
    }
}
