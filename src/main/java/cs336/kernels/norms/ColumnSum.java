package cs336.kernels.norms;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * {@code kernels/column_sum.cu}: what the blocks of another kernel have summed up, each over its own rows, in one sum.
 */
final class ColumnSum {
    private static final KernelSource SOURCE = KernelSource.named("column_sum.cu");
    private static final int COLUMNS_OF_BLOCK = 32;
    private static final BlockDim BLOCK = new BlockDim(1024);
    private static final MemoryFormatOptional DENSE = MemoryScope.keep(new MemoryFormatOptional());
    private static final Map<ColumnSumKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record ColumnSumKey(DType type, Device device) {}

    private ColumnSum() {}

    /**
     * The sum of each column, added in the same order each time.
     *
     * @param partial [parts, columns], fp32, dense
     * @return [columns] of this type
     */
    static Tensor of(Tensor partial, DType type, Device device) {
        int parts = Math.toIntExact(partial.size(0));
        int columns = Math.toIntExact(partial.size(1));
        Tensor sum = torch.empty(new long[] {columns}, device.options(type), DENSE);
        kernel(type, device)
                .launch(
                        new GridDim((columns + COLUMNS_OF_BLOCK - 1) / COLUMNS_OF_BLOCK),
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
