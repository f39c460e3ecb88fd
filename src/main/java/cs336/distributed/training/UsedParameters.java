package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The parameters that have a gradient on any rank, as all ranks agree. The agreement costs no host synchronization on a
 * rank that has all gradients.
 */
final class UsedParameters implements AutoCloseable {
    private final Tensor ones; // [parameters]
    private final Tensor used; // [parameters], 1 if any rank has a gradient

    UsedParameters(int parameters, Device device) {
        try (var scope = MemoryScope.open()) {
            long[] all = {parameters};
            ones = MemoryScope.keep(torch.ones(all, device.options(DType.FLOAT32)));
            used = MemoryScope.keep(torch.ones(all, device.options(DType.FLOAT32)));
        }
    }

    /**
     * Starts an all-reduce.
     *
     * @param present for each parameter, whether it has a gradient on this rank
     */
    PendingCollective start(ProcessGroup group, boolean[] present) {
        if (isAll(present)) {
            used.copy_(ones); // on the device, without a copy from the host
        } else {
            float[] numbers = new float[present.length];
            for (int i = 0; i < numbers.length; i++) {
                numbers[i] = present[i] ? 1 : 0;
            }
            used.copy_(Tensors.of(numbers, numbers.length));
        }
        return group.allReduceAsync(used, Reduction.MAX);
    }

    /** Returns the parameters that have a gradient on no rank, after the all-reduce. */
    IntStream unused(boolean[] present) {
        if (isAll(present)) {
            return IntStream.empty();
        }
        double[] usedAnywhere = Tensors.toDoubles(used);
        return IntStream.range(0, usedAnywhere.length).filter(i -> usedAnywhere[i] == 0);
    }

    private static boolean isAll(boolean[] present) {
        for (boolean hadGradient : present) {
            if (!hadGradient) {
                return false;
            }
        }
        return true;
    }

    @Override
    public void close() {
        ones.close();
        used.close();
    }
}
