package cs336.distributed.collectives;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/** What must hold of a collective's tensors before any native code sees them. */
final class CollectiveChecks {
    private static final Set<DType> FLOATING = EnumSet.of(DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    private CollectiveChecks() {}

    /** A dense tensor where the backend takes it. */
    static void tensor(String name, Tensor tensor, CollectiveBackend backend, Device device) {
        if (tensor == null || tensor.isNull() || !tensor.defined()) {
            throw new IllegalArgumentException(
                    name + " must be a tensor, not " + (tensor == null ? "null" : "a closed or undefined one"));
        }
        if (!tensor.is_contiguous()) {
            throw new IllegalArgumentException(name + " must be dense, in the order of its dimensions; its shape is "
                    + Arrays.toString(Tensors.shape(tensor)));
        }
        boolean onItsCard = device.isCuda() && tensor.is_cuda() && card(tensor) == device.index();
        if (!onItsCard && !(backend == CollectiveBackend.GLOO && tensor.is_cpu())) {
            String taken = backend == CollectiveBackend.NCCL
                    ? device.toString()
                    : device.isCuda() ? "cpu and " + device : "cpu";
            throw new IllegalArgumentException(name + " is on " + (tensor.is_cuda() ? "cuda:" + card(tensor) : "cpu")
                    + ", but " + backend + " takes tensors on " + taken + " here");
        }
    }

    private static int card(Tensor tensor) {
        try (var device = tensor.device()) {
            return device.index();
        }
    }

    /** A tensor that holds the parts of so many ranks. */
    static void partsOf(String name, Tensor whole, String partName, Tensor part, int ranks) {
        if (whole.numel() != part.numel() * ranks || DType.of(whole) != DType.of(part)) {
            throw new IllegalArgumentException("%s must have %d × the %d elements of %s, of %s; it has %d of %s"
                    .formatted(name, ranks, part.numel(), partName, DType.of(part), whole.numel(), DType.of(whole)));
        }
    }

    /** Elements that an average can be put into. */
    static void reducible(String name, Tensor tensor, Reduction reduction) {
        if (reduction == Reduction.AVERAGE && !FLOATING.contains(DType.of(tensor))) {
            throw new IllegalArgumentException(
                    name + " must be one of " + FLOATING + " for an average, not " + DType.of(tensor));
        }
    }

    /** One of the ranks. */
    static void rank(String name, int rank, int size) {
        if (rank < 0 || rank >= size) {
            throw new IllegalArgumentException(name + " must be a rank from 0 to " + (size - 1) + ", not " + rank);
        }
    }
}
