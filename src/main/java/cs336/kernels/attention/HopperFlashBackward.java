package cs336.kernels.attention;

import cs336.kernels.attention.FlashRows.RowKernel;
import cs336.kernels.attention.FlashVariant.AttentionGradients;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.LaunchStream;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The backward pass of attention on Hopper, in three kernels: D and L of each query, the GEMMs
 * ({@code kernels/flash_hopper_backward.cu}), and the conversion of dQ from its fp32 sum.
 */
final class HopperFlashBackward {
    private static final MemoryFormatOptional DEFAULT_FORMAT = MemoryScope.keep(new MemoryFormatOptional());
    private static final Map<HopperBackwardKey, HopperFlashBackward> KERNELS = new ConcurrentHashMap<>();
    private static final int STATISTICS = 2; // per query: L and D
    private static final int CHUNKS = 2; // of dQ per block of queries

    private record HopperBackwardKey(DType type, HopperBackwardTile tile, Device device) {}

    private final HopperBackwardTile tile;
    private final Kernel before;
    private final Kernel main;
    private final Kernel after;
    private final BlockDim beforeBlock;
    private final BlockDim afterBlock;

    private HopperFlashBackward(HopperBackwardKey key) {
        tile = key.tile();
        var rows = tile.rows(key.type());
        before = load(FlashRows.FILE, rows.defines(RowKernel.BEFORE), RowKernel.BEFORE.function(), key);
        main = load(HopperBackwardTile.FILE, tile.defines(key.type()), HopperBackwardTile.KERNEL, key);
        after = load(FlashRows.FILE, rows.defines(RowKernel.AFTER), RowKernel.AFTER.function(), key);
        beforeBlock = new BlockDim(rows.threads(RowKernel.BEFORE));
        afterBlock = new BlockDim(rows.threads(RowKernel.AFTER));
    }

    private static Kernel load(String file, Map<String, Object> defines, String kernel, HopperBackwardKey key) {
        return KernelModule.load(KernelSource.named(file), defines, key.device())
                .kernel(kernel);
    }

    /**
     * Computes the gradients, as {@link FlashVariant#backward} defines them.
     *
     * @param q queries [B, T, d] or [B, H, T, d], fp16 or bf16, on a Hopper GPU; d a multiple of 8, at most 128
     * @param k keys [B, S, d] or [B, H, S, d]
     * @param v values, of the keys' shape
     * @param o output of the forward pass
     * @param l log-sum-exp of the forward pass, fp32
     * @param dO gradient of the output
     * @param deterministic whether dQ is bitwise reproducible; dK and dV always are
     * @return gradients in the caller's memory scope
     */
    static AttentionGradients run(
            Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal, boolean deterministic) {
        int n = (int) q.dim();
        var tile = HopperBackwardTile.of(
                q.size(n - 1),
                q.size(0) * (n > 3 ? q.size(1) : 1),
                q.size(n - 2),
                k.size(n - 2),
                causal,
                Gpu.of(q).multiprocessors());
        return run(tile, q, k, v, o, l, dO, causal, deterministic);
    }

    /** Computes the gradients with a given tile. */
    static AttentionGradients run(
            HopperBackwardTile tile,
            Tensor q,
            Tensor k,
            Tensor v,
            Tensor o,
            Tensor l,
            Tensor dO,
            boolean causal,
            boolean deterministic) {
        Gpu gpu = Gpu.of(q);
        Tensor dQ = emptyFor(q);
        Tensor dK = emptyFor(k);
        Tensor dV = emptyFor(v);
        var kernels = KERNELS.computeIfAbsent(
                new HopperBackwardKey(DType.of(q), tile, gpu.device()), HopperFlashBackward::new);
        try (var scope = MemoryScope.open();
                var stream = LaunchStream.of(gpu.device())) {
            kernels.launch(
                    gpu,
                    stream,
                    TensorMap.reachable(q),
                    TensorMap.reachable(k),
                    TensorMap.reachable(v),
                    TensorMap.reachable(o),
                    l.is_contiguous() ? l : l.contiguous(),
                    dO,
                    dQ,
                    dK,
                    dV,
                    causal,
                    deterministic);
        }
        return new AttentionGradients(dQ, dK, dV);
    }

    /** Launches the kernels on tensors [B, H, rows, d] or [H, rows, d]; l has no last dimension. */
    private void launch(
            Gpu gpu,
            LaunchStream stream,
            Tensor q,
            Tensor k,
            Tensor v,
            Tensor o,
            Tensor l,
            Tensor dO,
            Tensor dQ,
            Tensor dK,
            Tensor dV,
            boolean causal,
            boolean deterministic) {
        int heads = Math.toIntExact(q.size(-3));
        int batchedHeads = Math.toIntExact(q.dim() > 3 ? q.size(0) * heads : heads);
        int rows = Math.toIntExact(q.size(-2));
        int keys = Math.toIntExact(k.size(-2));
        int d = (int) q.size(-1);
        int blockQueries = tile.queries();
        long blocks = batchedHeads * IntegerMath.ceilDiv(rows, blockQueries);

        // One fp32 buffer: L and D, the sum of dQ, and the counters that order the additions to it.
        long statistics = blocks * STATISTICS * blockQueries;
        long sum = blocks * blockQueries * tile.width();
        long turns = deterministic ? blocks * CHUNKS : 0;
        Tensor workspace = gpu.empty(statistics + sum + turns);
        long statisticsAt = workspace.data_ptr().address();
        long sumAt = statisticsAt + statistics * Float.BYTES;
        long turnsAt = deterministic ? sumAt + sum * Float.BYTES : 0;

        boolean reachable = TensorMap.fits(dO); // false for the gradient of a sum, whose strides are 0
        Tensor dOut = reachable ? dO : torch.empty_like(o);
        var rowGrid = new GridDim(Math.toIntExact(blocks));
        double scale = 1 / Math.sqrt(d);
        before.launch(
                stream,
                rowGrid,
                beforeBlock,
                0,
                o,
                dO,
                l,
                statisticsAt,
                sumAt,
                turnsAt,
                heads,
                rows,
                d,
                HopperFlash.batchStride(o),
                o.stride(-3),
                o.stride(-2),
                HopperFlash.batchStride(dO),
                dO.stride(-3),
                dO.stride(-2),
                dO.stride(-1),
                reachable ? (Object) 0L : dOut,
                HopperFlash.batchStride(dOut),
                dOut.stride(-3),
                dOut.stride(-2));
        main.launch(
                stream,
                new GridDim(Math.toIntExact(
                        batchedHeads * IntegerMath.ceilDiv(keys, HopperBackwardTile.KEYS) * tile.split())),
                new BlockDim(HopperBackwardTile.THREADS),
                tile.sharedBytes(),
                boxes(q, blockQueries),
                boxes(k, HopperBackwardTile.KEYS),
                boxes(v, HopperBackwardTile.KEYS),
                boxes(dOut, blockQueries),
                boxes(dK, HopperBackwardTile.BOX),
                boxes(dV, HopperBackwardTile.BOX),
                statisticsAt,
                sumAt,
                turnsAt,
                rows,
                keys,
                heads,
                batchedHeads,
                Math.min(batchedHeads, tile.headGroup(rows, gpu.l2Bytes())),
                causal ? 1 : 0,
                (float) scale,
                (float) (scale / Math.log(2)));
        after.launch(
                stream,
                rowGrid,
                afterBlock,
                0,
                sumAt,
                dQ,
                (float) scale,
                heads,
                rows,
                d,
                HopperFlash.batchStride(dQ),
                dQ.stride(-3),
                dQ.stride(-2));
    }

    private static TensorMap boxes(Tensor tensor, int rows) {
        return TensorMap.of(tensor, 1, 1, rows, HopperBackwardTile.BOX);
    }

    /** Returns an empty gradient with the layout of x if TMA can access that, otherwise contiguous. */
    private static Tensor emptyFor(Tensor x) {
        return TensorMap.fits(x) ? torch.empty_like(x) : torch.empty(Tensors.shape(x), x.options(), DEFAULT_FORMAT);
    }
}
