package cs336.kernels.loss;

import cs336.basics.LinearCrossEntropy.CrossEntropyKernel;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;

/**
 * Cross-entropy of 16-bit logits on a GPU and its gradient, by one kernel, {@code kernels/cross_entropy.cu}. It reads
 * each row twice, the second time from L2 if the rows of all running blocks fit there, and writes the gradient over it.
 */
public final class FusedCrossEntropy implements CrossEntropyKernel {
    public static final String FILE = "cross_entropy.cu";
    public static final String KERNEL = "cross_entropy";
    public static final int THREADS = 1024;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final int ACCESS_BYTES = 16;
    private static final int MOST_COLUMNS = Integer.MAX_VALUE - THREADS * ACCESS_BYTES; // the last index of a thread
    private static final Map<CrossEntropyVariant, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record CrossEntropyVariant(DType type, int vector, Device device) {}

    /** Returns the macros to compile the kernel with; {@code vector} is the number of elements per memory access. */
    public static Map<String, Object> defines(DType type, int vector) {
        return Map.of("ELEMENT", RowLayout.cudaName(type), "VECTOR", vector, "THREADS", THREADS);
    }

    @Override
    public boolean supports(Tensor logits) {
        DType type = DType.of(logits);
        return logits.is_cuda()
                && Gpu.of(logits).runsKernels()
                && type.isReducedFloatingPoint()
                && logits.dim() == 2
                && logits.numel() > 0
                && logits.is_contiguous()
                && logits.size(1) <= MOST_COLUMNS;
    }

    @Override
    public Tensor replaceByGradients(Tensor logits, Tensor targets) {
        boolean isVector = targets.dim() == 1 && targets.size(0) == logits.size(0);
        if (!isVector || DType.of(targets) != DType.INT64 || !targets.is_contiguous()) {
            throw new IllegalArgumentException("targets must be contiguous int64 [" + logits.size(0) + "], not "
                    + DType.of(targets) + " " + Arrays.toString(Tensors.shape(targets)));
        }
        DType type = DType.of(logits);
        Gpu gpu = Gpu.of(logits);
        int rows = Math.toIntExact(logits.size(0));
        int columns = Math.toIntExact(logits.size(1));
        int wide = ACCESS_BYTES / type.bytes();
        boolean aligned = columns % wide == 0 && logits.data_ptr().address() % ACCESS_BYTES == 0;
        Tensor losses = gpu.empty(rows);
        KERNELS.computeIfAbsent(
                        new CrossEntropyVariant(type, aligned ? wide : 1, gpu.device()),
                        key -> KernelModule.load(SOURCE, defines(key.type, key.vector), key.device)
                                .kernel(KERNEL))
                .launch(new GridDim(rows), new BlockDim(THREADS), 0, logits, targets, losses, columns);
        return losses;
    }
}
