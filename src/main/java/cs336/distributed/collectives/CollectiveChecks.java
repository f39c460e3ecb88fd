package cs336.distributed.collectives;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/** Checks of a collective's arguments, before native code receives them. */
final class CollectiveChecks {
    private static final Set<DType> FLOATING = EnumSet.of(DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    private CollectiveChecks() {}

    /** Checks that a tensor is defined, contiguous and on a device that the backend supports. */
    static void tensor(String name, Tensor tensor, CollectiveBackend backend, Device device) {
        if (tensor == null || tensor.isNull() || !tensor.defined()) {
            throw new IllegalArgumentException(
                    name + " must be a tensor, not " + (tensor == null ? "null" : "a closed or undefined tensor"));
        }
        if (!tensor.is_contiguous()) {
            throw new IllegalArgumentException(name + " must be contiguous; a view of shape "
                    + Arrays.toString(Tensors.shape(tensor)) + " is not");
        }
        boolean onItsGpu = device.isCuda() && tensor.is_cuda() && gpuIndex(tensor) == device.index();
        if (!onItsGpu && !(backend == CollectiveBackend.GLOO && tensor.is_cpu())) {
            String supported = backend == CollectiveBackend.NCCL
                    ? device.toString()
                    : device.isCuda() ? "cpu or " + device : "cpu";
            throw new IllegalArgumentException(name + " must be on " + supported + " for " + backend + ", not on "
                    + (tensor.is_cuda() ? "cuda:" + gpuIndex(tensor) : "cpu"));
        }
    }

    private static int gpuIndex(Tensor tensor) {
        try (var device = tensor.device()) {
            return device.index();
        }
    }

    /** Checks that the whole tensor has {@code ranks} times the elements of a rank's shard, and its dtype. */
    static void shardsOf(String name, Tensor whole, String shardName, Tensor shard, int ranks) {
        if (whole.numel() != shard.numel() * ranks || DType.of(whole) != DType.of(shard)) {
            throw new IllegalArgumentException("%s must have %d × the %d elements of %s, in %s; it has %d in %s"
                    .formatted(name, ranks, shard.numel(), shardName, DType.of(shard), whole.numel(), DType.of(whole)));
        }
    }

    private static void requireOneDtype(String name, Tensor first, Tensor other) {
        if (DType.of(other) != DType.of(first)) {
            throw new IllegalArgumentException(
                    name + " must have one dtype, not " + DType.of(first) + " and " + DType.of(other));
        }
    }

    /** Checks the pairs of a coalesced collective: lists of the same length, at least one pair, all of one dtype. */
    static void shardsOf(
            String name,
            List<Tensor> wholes,
            String shardName,
            List<Tensor> shards,
            int ranks,
            CollectiveBackend backend,
            Device device) {
        if (wholes.isEmpty() || wholes.size() != shards.size()) {
            throw new IllegalArgumentException("%s and %s must have equally many tensors, at least 1, not %d and %d"
                    .formatted(name, shardName, wholes.size(), shards.size()));
        }
        for (int i = 0; i < wholes.size(); i++) {
            tensor(name + "[" + i + "]", wholes.get(i), backend, device);
            tensor(shardName + "[" + i + "]", shards.get(i), backend, device);
            shardsOf(name + "[" + i + "]", wholes.get(i), shardName + "[" + i + "]", shards.get(i), ranks);
            requireOneDtype(name, wholes.get(0), wholes.get(i));
        }
    }

    /** Checks that the dtype can hold the result of the reduction. */
    static void reducible(String name, Tensor tensor, Reduction reduction) {
        if (reduction == null) {
            throw new IllegalArgumentException("reduction must be SUM, AVERAGE or MAX, not null");
        }
        if (reduction == Reduction.AVERAGE && !FLOATING.contains(DType.of(tensor))) {
            throw new IllegalArgumentException(
                    name + " must be one of " + FLOATING + " for an average, not " + DType.of(tensor));
        }
    }

    /** Checks that a rank is in the group. */
    static void rank(String name, int rank, int size) {
        if (rank < 0 || rank >= size) {
            throw new IllegalArgumentException(name + " must be a rank from 0 to " + (size - 1) + ", not " + rank);
        }
    }
}
