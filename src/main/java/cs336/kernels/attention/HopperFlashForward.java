package cs336.kernels.attention;

import cs336.kernels.attention.FlashVariant.AttentionOutput;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The kernel of {@code kernels/flash_hopper_forward.cu}, compiled on first use for each tile and dtype. */
final class HopperFlashForward {
    private static final KernelSource SOURCE = KernelSource.named(HopperForwardTile.FILE);
    private static final double LOG2_E = 1 / Math.log(2);
    private static final Map<HopperForwardKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record HopperForwardKey(DType type, HopperForwardTile tile, Device device) {}

    private HopperFlashForward() {}

    /**
     * Computes attention's output and log-sum-exp, as {@link FlashVariant#forward} defines them.
     *
     * @param q queries [B, T, d] or [B, H, T, d], bf16 or fp16, on a Hopper GPU; d a multiple of 8, at most 128
     * @param k keys, of the queries' dtype and of their shape except for T
     * @param v values, of the keys' dtype and shape
     * @return tensors in the caller's memory scope; o has the layout that {@code empty_like(q)} gives
     */
    static AttentionOutput run(Tensor q, Tensor k, Tensor v, boolean causal) {
        Gpu gpu = Gpu.of(q);
        boolean heads = q.dim() > 3;
        HopperForwardTile tile = HopperForwardTile.of(
                (int) q.size(-1),
                Math.toIntExact(q.size(0) * (heads ? q.size(1) : 1)),
                Math.toIntExact(q.size(-2)),
                Math.toIntExact(k.size(-2)),
                causal,
                gpu.multiprocessors());
        return run(tile, q, k, v, causal);
    }

    /** Runs {@link #run(Tensor, Tensor, Tensor, boolean)}, with a given tile. */
    static AttentionOutput run(HopperForwardTile tile, Tensor q, Tensor k, Tensor v, boolean causal) {
        Gpu gpu = Gpu.of(q);
        try (var scope = MemoryScope.open()) {
            Tensor queries = TensorMap.reachable(q);
            Tensor o = torch.empty_like(queries);
            Tensor l = gpu.empty(Tensors.leadingShape(q));
            launch(gpu, tile, queries, TensorMap.reachable(k), TensorMap.reachable(v), o, l, causal);
            return new AttentionOutput(scope.escape(o), scope.escape(l));
        }
    }

    /** Launches the kernel on tensors [B, H, rows, d] or [H, rows, d]; l has no last dimension. */
    private static void launch(
            Gpu gpu, HopperForwardTile tile, Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, boolean causal) {
        int batch = q.dim() > 3 ? Math.toIntExact(q.size(0)) : 1;
        int heads = Math.toIntExact(q.size(-3));
        int queries = Math.toIntExact(q.size(-2));
        int keys = Math.toIntExact(k.size(-2));
        int clusters = Math.min(tile.tiles(batch * heads, queries), tile.clusters(gpu.multiprocessors()));
        KERNELS.computeIfAbsent(new HopperForwardKey(DType.of(q), tile, gpu.device()), HopperFlashForward::load)
                .launch(
                        new GridDim(clusters * tile.cluster()),
                        new BlockDim(tile.blockThreads()),
                        tile.sharedBytes(),
                        map(q, HopperForwardTile.BOX_ROWS),
                        map(k, tile.keys()),
                        map(v, tile.keys()),
                        map(o, HopperForwardTile.BOX_ROWS),
                        l,
                        queries,
                        keys,
                        heads,
                        batch,
                        causal ? 1 : 0,
                        (float) (LOG2_E / Math.sqrt(q.size(-1))));
    }

    private static Kernel load(HopperForwardKey key) {
        return KernelModule.load(SOURCE, key.tile().defines(key.type()), key.device())
                .kernel(HopperForwardTile.KERNEL);
    }

    private static TensorMap map(Tensor x, int rows) {
        return TensorMap.of(x, 1, 1, rows, HopperForwardTile.BOX_COLUMNS);
    }
}
