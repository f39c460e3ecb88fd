package cs336.kernels.attention;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Torch;
import java.util.function.UnaryOperator;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Queries, keys, values and the gradient of the output. */
record FlashInputs(Tensor q, Tensor k, Tensor v, Tensor dO) {
    /**
     * Samples standard normal numbers from a fixed seed.
     *
     * @param queries shape of q and dO
     * @param keys shape of k and v
     */
    static FlashInputs random(Device device, DType type, long[] queries, long[] keys) {
        Torch.seed(336);
        return new FlashInputs(randn(device, queries), randn(device, keys), randn(device, keys), randn(device, queries))
                .to(type);
    }

    private static Tensor randn(Device device, long[] shape) {
        return torch.randn(shape, device.options(DType.FLOAT64));
    }

    FlashInputs to(DType type) {
        return each(x -> x.to(type.scalarType()));
    }

    FlashInputs each(UnaryOperator<Tensor> change) {
        return new FlashInputs(change.apply(q), change.apply(k), change.apply(v), change.apply(dO));
    }
}
