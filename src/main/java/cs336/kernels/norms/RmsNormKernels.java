package cs336.kernels.norms;

import cs336.kernels.norms.RmsNormTile.RmsNormPass;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Driver;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The kernels of {@code kernels/rmsnorm.cu} on dense rows, each compiled for its row width, types and tile. */
final class RmsNormKernels {
    private static final KernelSource SOURCE = KernelSource.named("rmsnorm.cu");
    private static final MemoryFormatOptional DENSE = MemoryScope.keep(new MemoryFormatOptional());
    private static final Map<RowLayout, RmsNormKernels> FORWARD = new ConcurrentHashMap<>();
    private static final Map<RowLayout, RmsNormKernels> BACKWARD = new ConcurrentHashMap<>();

    private final RowLayout layout;
    private final RmsNormTile tile;
    private final Kernel kernel;
    private final BlockDim block;
    private final int sharedBytes;
    private final int residentBlocks; // on the whole card

    RmsNormKernels(RowLayout layout, RmsNormTile tile) {
        this.layout = layout;
        this.tile = tile;
        kernel = KernelModule.load(SOURCE, tile.defines(layout), layout.device())
                .kernel(tile.pass().kernel());
        block = new BlockDim(tile.blockThreads());
        sharedBytes = tile.sharedBytes(layout);
        residentBlocks = Gpu.of(layout.device()).multiprocessors() * kernel.residentBlocks(block, sharedBytes);
    }

    /**
     * y = x · r · w.
     *
     * @param x dense, with at least one row
     * @param weight [H], dense
     * @return like x
     */
    static Tensor forward(Tensor x, Tensor weight, double eps) {
        Tensor y = torch.empty_like(x);
        RowLayout layout = RowLayout.of(weight, x, y);
        FORWARD.computeIfAbsent(layout, l -> new RmsNormKernels(l, fitting(RmsNormTile.forward(l), l)))
                .launchForward(x, weight, y, eps);
        return y;
    }

    /**
     * The gradients for x and for the weight.
     *
     * @param x dense, with at least one row
     * @param weight [H], dense
     * @param dy like x
     * @return dx, like x, and dw, like the weight
     */
    static Tensor[] backward(Tensor x, Tensor weight, Tensor dy, double eps) {
        Tensor dx = torch.empty_like(x);
        RowLayout layout = RowLayout.of(weight, x, dy, dx);
        return BACKWARD.computeIfAbsent(layout, l -> new RmsNormKernels(l, fitting(RmsNormTile.backward(l), l)))
                .launchBackward(x, weight, dy, dx, eps);
    }

    /** A card with less shared memory than the tile wants does without. */
    private static RmsNormTile fitting(RmsNormTile tile, RowLayout layout) {
        int most = Driver.attribute(layout.device(), cudart.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        int ownBytes = 8 * 1024; // static shared memory beside it
        return tile.sharedBytes(layout) + ownBytes <= most ? tile : tile.withStages(1);
    }

    void launchForward(Tensor x, Tensor weight, Tensor y, double eps) {
        long rows = x.numel() / layout.width();
        kernel.launch(grid(rows), block, sharedBytes, x, weight, y, rows, (float) eps);
    }

    Tensor[] launchBackward(Tensor x, Tensor weight, Tensor dy, Tensor dx, double eps) {
        long rows = x.numel() / layout.width();
        GridDim grid = grid(rows);
        long[] shape = {grid.x(), layout.width()};
        var options = layout.device().options(DType.FLOAT32);
        Tensor partial = tile.pass() == RmsNormPass.BACKWARD_WIDE
                ? torch.zeros(shape, options)
                : torch.empty(shape, options, DENSE);
        kernel.launch(grid, block, sharedBytes, x, weight, dy, dx, partial, rows, (float) eps);
        return new Tensor[] {dx, ColumnSum.of(partial, layout.gainType(), layout.device())};
    }

    /** Persistent blocks are no more than run at once: each takes as many rows as it comes to. */
    private GridDim grid(long rows) {
        long blocks = (rows + tile.blockRows() - 1) / tile.blockRows();
        return new GridDim((int) Math.min(blocks, tile.persistent() ? residentBlocks : Integer.MAX_VALUE));
    }

    /** Whether a block of this tile fits into a multiprocessor at all. */
    boolean fits() {
        return residentBlocks > 0;
    }

    Kernel kernel() {
        return kernel;
    }
}
