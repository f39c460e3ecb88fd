package cs336.kernels.norms;

import cs336.kernels.norms.RmsNormTile.RmsNormPass;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.units.IntegerMath;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A kernel of {@code kernels/rmsnorm.cu}, compiled for a row width, dtypes and a tile. Rows are contiguous. */
final class RmsNormKernels {
    private static final KernelSource SOURCE = KernelSource.named("rmsnorm.cu");
    private static final Map<RowLayout, RmsNormKernels> FORWARD = new ConcurrentHashMap<>();
    private static final Map<RowLayout, RmsNormKernels> STREAMING = new ConcurrentHashMap<>(); // also forward
    private static final Map<RowLayout, RmsNormKernels> BACKWARD = new ConcurrentHashMap<>();

    private final RowLayout layout;
    private final RmsNormTile tile;
    private final Kernel kernel;
    private final BlockDim block;
    private final int sharedBytes;
    private final int residentBlocks; // on the whole GPU

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
     * Returns y = x · r · w.
     *
     * @param x […, H], contiguous, with at least one row
     * @param weight [H], contiguous
     * @return […, H]
     */
    static Tensor forward(Tensor x, Tensor weight, double eps) {
        Tensor y = torch.empty_like(x);
        RowLayout layout = RowLayout.of(weight, x, y);
        RmsNormKernels kernels = x.nbytes() > Gpu.STREAM_BYTES
                ? STREAMING.computeIfAbsent(layout, l -> new RmsNormKernels(l, RmsNormTile.streaming(l)))
                : FORWARD.computeIfAbsent(layout, l -> new RmsNormKernels(l, fitting(RmsNormTile.forward(l), l)));
        kernels.launchForward(x, weight, y, eps);
        return y;
    }

    /**
     * Returns the gradients of x and of the weight.
     *
     * @param x […, H], contiguous, with at least one row
     * @param weight [H], contiguous
     * @param dy […, H], contiguous
     * @return dx […, H] and dw [H]
     */
    static Tensor[] backward(Tensor x, Tensor weight, Tensor dy, double eps) {
        Tensor dx = torch.empty_like(x);
        RowLayout layout = RowLayout.of(weight, x, dy, dx);
        return BACKWARD.computeIfAbsent(layout, l -> new RmsNormKernels(l, fitting(RmsNormTile.backward(l), l)))
                .launchBackward(x, weight, dy, dx, eps);
    }

    /** Returns the tile, or the same tile without stages if it exceeds the shared memory of a block. */
    private static RmsNormTile fitting(RmsNormTile tile, RowLayout layout) {
        int max = Gpu.of(layout.device()).blockSharedBytes();
        int staticBytes = 8 * 1024; // upper bound of the kernel's static shared memory
        return tile.sharedBytes(layout) + staticBytes <= max ? tile : tile.withStages(1);
    }

    void launchForward(Tensor x, Tensor weight, Tensor y, double eps) {
        long rows = x.numel() / layout.width();
        kernel.launch(grid(rows), block, sharedBytes, x, weight, y, rows, (float) eps);
    }

    Tensor[] launchBackward(Tensor x, Tensor weight, Tensor dy, Tensor dx, double eps) {
        long rows = x.numel() / layout.width();
        GridDim grid = grid(rows);
        long[] shape = {grid.x(), layout.width()};
        Gpu gpu = Gpu.of(layout.device());
        Tensor partial = tile.pass() == RmsNormPass.BACKWARD_WIDE ? torch.zeros(shape, gpu.fp32()) : gpu.empty(shape);
        kernel.launch(grid, block, sharedBytes, x, weight, dy, dx, partial, rows, (float) eps);
        return new Tensor[] {dx, ColumnSum.of(partial, layout.gainType(), layout.device())};
    }

    /**
     * Returns one block per {@code blockRows} rows; for persistent kernels at most as many blocks as are resident at
     * once.
     */
    private GridDim grid(long rows) {
        long blocks = IntegerMath.ceilDiv(rows, tile.blockRows());
        return new GridDim((int) Math.min(blocks, tile.persistent() ? residentBlocks : Integer.MAX_VALUE));
    }

    /** Returns whether a multiprocessor has the resources for a block. */
    boolean fits() {
        return residentBlocks > 0;
    }

    Kernel kernel() {
        return kernel;
    }
}
