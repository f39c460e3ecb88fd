package cs336.distributed.training;

import cs336.basics.GradientClipping;
import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;

/**
 * The L2 norm of gradients that are divided among ranks: each rank computes the squared norm of its shard, and the
 * squared norms are added.
 */
final class ShardedNorm {
    private ShardedNorm() {}

    /**
     * Returns the squared norm of the gradients of some parameters.
     *
     * @return fp64 [1] on the device, in the caller's memory scope
     */
    static Tensor squared(Iterable<Tensor> parameters, Device device) {
        return GradientClipping.norm(parameters)
                .to(device.toTorch(), DType.FLOAT64.scalarType())
                .square()
                .reshape(1);
    }

    /**
     * Returns the norm of all gradients.
     *
     * @param squares the sum of the squared norms of all shards, fp64 [1]
     * @param dtype dtype of the parameters
     * @return a 0-dimensional tensor of this dtype, but at least fp32, in the caller's memory scope
     */
    static Tensor root(Tensor squares, DType dtype) {
        DType wide = dtype.bytes() < Float.BYTES ? DType.FLOAT32 : dtype;
        return squares.sqrt().squeeze().to(wide.scalarType());
    }
}
