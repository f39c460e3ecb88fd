package cs336.kernels.norms;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.units.IntegerMath;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;

/**
 * Column sums by {@code kernels/column_sum.cu}, the second step of a weight's gradient: each block of the first kernel
 * sums over its own rows, and this kernel sums over the blocks.
 */
final class ColumnSum {
    private static final KernelSource SOURCE = KernelSource.named("column_sum.cu");
    private static final int BLOCK_COLUMNS = 32;
    private static final BlockDim BLOCK = new BlockDim(1024);
    private static final Map<ColumnSumKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record ColumnSumKey(DType type, Device device) {}

    private ColumnSum() {}

    /**
     * Returns the sum of each column. The order of addition is fixed, so the result is bitwise reproducible.
     *
     * @param partial [parts, columns], fp32, contiguous
     * @param type dtype of the result
     * @return [columns]
     */
    static Tensor of(Tensor partial, DType type, Device device) {
        int parts = Math.toIntExact(partial.size(0));
        int columns = Math.toIntExact(partial.size(1));
        Tensor sum = Gpu.of(device).empty(type, columns);
        kernel(type, device)
                .launch(
                        new GridDim(IntegerMath.ceilDiv(columns, BLOCK_COLUMNS)),
                        BLOCK,
                        0,
                        partial,
                        sum,
                        parts,
                        columns);
        return sum;
    }

    private static Kernel kernel(DType type, Device device) {
        return KERNELS.computeIfAbsent(
                new ColumnSumKey(type, device),
                key -> KernelModule.load(SOURCE, Map.of("ELEMENT", RowLayout.cudaName(type)), device)
                        .kernel("column_sum"));
    }
}
