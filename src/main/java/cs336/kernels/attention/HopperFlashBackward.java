package cs336.kernels.attention;

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
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The backward pass of attention on Hopper, three kernels: D and L of each query, the products
 * ({@code kernels/flash_hopper_backward.cu}), and dQ out of its sum in fp32.
 */
final class HopperFlashBackward {
    private static final MemoryFormatOptional DENSE = MemoryScope.keep(new MemoryFormatOptional());
    private static final Map<Key, HopperFlashBackward> KERNELS = new ConcurrentHashMap<>();
    private static final int TERMS = 2; // of a query: L and D
    private static final int CHUNKS = 2; // of dQ in a block of queries

    private record Key(DType type, HopperBackwardTile tile, Device device) {}

    private final HopperBackwardTile tile;
    private final Kernel before;
    private final Kernel products;
    private final Kernel after;
    private final BlockDim rowBlock;

    private HopperFlashBackward(Key key) {
        tile = key.tile();
        var rows = new FlashRows(key.type(), tile.width(), tile.queries());
        before = load(FlashRows.FILE, rows.defines(FlashRows.Pass.BEFORE), FlashRows.Pass.BEFORE.kernel(), key);
        products = load(HopperBackwardTile.FILE, tile.defines(key.type()), HopperBackwardTile.KERNEL, key);
        after = load(FlashRows.FILE, rows.defines(FlashRows.Pass.AFTER), FlashRows.Pass.AFTER.kernel(), key);
        rowBlock = new BlockDim(rows.threads());
    }

    private static Kernel load(String file, Map<String, Object> defines, String kernel, Key key) {
        return KernelModule.load(KernelSource.named(file), defines, key.device())
                .kernel(kernel);
    }

    /**
     * The gradients, as {@link FlashVariant#backward} says.
     *
     * @param q queries [B, T, d] or [B, H, T, d], fp16 or bf16, on a Hopper card; d at most 128, a multiple of 8
     * @param k keys [B, S, d] or [B, H, S, d]
     * @param v values, of the shape of the keys
     * @param o output of the forward pass
     * @param l log-sum-exp of the forward pass, fp32
     * @param dO gradient of the output
     * @param deterministic whether dQ is the same, bit for bit, each time; dK and dV always are
     * @return in the caller's memory scope
     */
    static FlashVariant.Gradients run(
            Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal, boolean deterministic) {
        int n = (int) q.dim();
        var tile = HopperBackwardTiles.tile(
                q.size(n - 1),
                q.size(0) * (n > 3 ? q.size(1) : 1),
                q.size(n - 2),
                k.size(n - 2),
                causal,
                Gpu.of(q).multiprocessors());
        return run(tile, q, k, v, o, l, dO, causal, deterministic);
    }

    /** The same with a tile of the caller's choice. */
    static FlashVariant.Gradients run(
            HopperBackwardTile tile,
            Tensor q,
            Tensor k,
            Tensor v,
            Tensor o,
            Tensor l,
            Tensor dO,
            boolean causal,
            boolean deterministic) {
        Gpu card = Gpu.of(q);
        Tensor dQ = emptyFor(q);
        Tensor dK = emptyFor(k);
        Tensor dV = emptyFor(v);
        var kernels = KERNELS.computeIfAbsent(new Key(DType.of(q), tile, card.device()), HopperFlashBackward::new);
        try (var scope = MemoryScope.open();
                var stream = LaunchStream.of(card.device())) {
            kernels.launch(
                    card,
                    stream,
                    HopperFlash.reachable(q),
                    HopperFlash.reachable(k),
                    HopperFlash.reachable(v),
                    HopperFlash.reachable(o),
                    l.is_contiguous() ? l : l.contiguous(),
                    dO,
                    dQ,
                    dK,
                    dV,
                    causal,
                    deterministic);
        }
        return new FlashVariant.Gradients(dQ, dK, dV);
    }

    /** Of [batch, heads, rows, d] or [heads, rows, d] each, but for l. */
    private void launch(
            Gpu card,
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
        int queriesOfBlock = tile.queries();
        long blocks = (long) batchedHeads * ceilDiv(rows, queriesOfBlock);

        // One piece of memory, in fp32: L and D, the sum of dQ, and whose turn it is to add to that.
        long terms = blocks * TERMS * queriesOfBlock;
        long sum = blocks * queriesOfBlock * tile.width();
        long turns = deterministic ? blocks * CHUNKS : 0;
        Tensor workspace = card.empty(terms + sum + turns);
        long termsAt = workspace.data_ptr().address();
        long sumAt = termsAt + terms * Float.BYTES;
        long turnsAt = deterministic ? sumAt + sum * Float.BYTES : 0;

        boolean isReachable = TensorMap.fits(dO); // the gradient of a sum, for one, is not
        Tensor reachableDO = isReachable ? dO : torch.empty_like(o);
        var rowGrid = new GridDim(Math.toIntExact(blocks));
        double scale = 1 / Math.sqrt(d);
        before.launch(
                stream,
                rowGrid,
                rowBlock,
                0,
                o,
                dO,
                l,
                termsAt,
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
                isReachable ? (Object) 0L : reachableDO,
                HopperFlash.batchStride(reachableDO),
                reachableDO.stride(-3),
                reachableDO.stride(-2));
        products.launch(
                stream,
                new GridDim(
                        Math.toIntExact((long) batchedHeads * ceilDiv(keys, HopperBackwardTile.KEYS) * tile.split())),
                new BlockDim(HopperBackwardTile.THREADS),
                tile.sharedBytes(),
                boxes(q, queriesOfBlock),
                boxes(k, HopperBackwardTile.KEYS),
                boxes(v, HopperBackwardTile.KEYS),
                boxes(reachableDO, queriesOfBlock),
                boxes(dK, HopperBackwardTile.BOX),
                boxes(dV, HopperBackwardTile.BOX),
                termsAt,
                sumAt,
                turnsAt,
                rows,
                keys,
                heads,
                batchedHeads,
                HopperBackwardTiles.headGroup(tile, rows, card.l2Bytes()),
                causal ? 1 : 0,
                (float) scale,
                (float) (scale / Math.log(2)));
        after.launch(
                stream,
                rowGrid,
                rowBlock,
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

    /** A place for a gradient: in its tensor's layout if the copy engine can reach that. */
    private static Tensor emptyFor(Tensor x) {
        return TensorMap.fits(x) ? torch.empty_like(x) : torch.empty(Tensors.shape(x), x.options(), DENSE);
    }

    private static int ceilDiv(int a, int b) {
        return (a + b - 1) / b;
    }
}
