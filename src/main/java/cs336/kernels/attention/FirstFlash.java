package cs336.kernels.attention;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * FlashAttention-2 as published, in {@code kernels/flash_first.cu}: fp32 multiply-adds on tiles in shared memory,
 * without tensor cores, on any GPU from sm_80 on. It is written to be read. All its results are bitwise reproducible.
 * Inputs are fp32, bf16 or fp16, with d at most 128; inputs that are not contiguous are copied first.
 *
 * <p>Source: Dao, "FlashAttention-2", 2023, algorithms 1 and 2.
 */
public record FirstFlash() implements FlashVariant {
    public static final String FILE = "flash_first.cu";

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<FirstFlashKey, Kernel> KERNELS = new ConcurrentHashMap<>();
    private static final int WIDEST = 128; // columns; a lane's registers cannot hold its fraction of a wider row
    private static final int LANES = 32; // of a warp; a streamed tile has one row per lane
    private static final int WARPS = 4; // per block
    private static final int WARP_ROWS = 8; // rows of the block's own tile per warp
    public static final BlockDim BLOCK = new BlockDim(WARPS * LANES);

    private record FirstFlashKey(FirstFlashKernel kernel, DType type, int width, Device device) {}

    /** The kernels, with the number of tiles that a block keeps in shared memory. */
    public enum FirstFlashKernel {
        FORWARD("flash_forward", 1, 2),
        DELTA("flash_delta", 0, 0),
        BACKWARD_KEYS("flash_backward_keys", 2, 2),
        BACKWARD_QUERIES("flash_backward_queries", 2, 2);

        private final String function;
        private final int ownTiles;
        private final int streamedTiles;

        FirstFlashKernel(String function, int ownTiles, int streamedTiles) {
            this.function = function;
            this.ownTiles = ownTiles;
            this.streamedTiles = streamedTiles;
        }

        /** Returns the name of the {@code __global__} function. */
        public String function() {
            return function;
        }

        /**
         * Returns the macros that the kernel is compiled with.
         *
         * @param width head dimension d
         */
        public Map<String, Object> defines(DType type, int width) {
            return Map.ofEntries(
                    Map.entry(name(), 1),
                    Map.entry("ELEMENT", RowLayout.cudaName(type)),
                    Map.entry("WIDTH", width),
                    Map.entry("WARPS", WARPS),
                    Map.entry("WARP_ROWS", WARP_ROWS));
        }

        /**
         * Returns the dynamic shared memory of a block, in bytes. Rows are padded to a multiple of 32 elements, and
         * those of streamed tiles by one more.
         *
         * @param width head dimension d
         */
        public int sharedBytes(int width) {
            int stride = IntegerMath.roundUp(width, LANES);
            return Float.BYTES * (ownTiles * WARPS * WARP_ROWS * stride + streamedTiles * LANES * (stride + 1));
        }
    }

    /** @throws IllegalArgumentException if q is not on a GPU, or its dtype or d is not supported */
    @Override
    public AttentionOutput forward(Tensor q, Tensor k, Tensor v, boolean causal) {
        requireSupported(q, k, v);
        try (var scope = MemoryScope.open()) {
            Tensor queries = q.contiguous();
            Tensor o = torch.empty_like(queries);
            Tensor l = Gpu.of(q).empty(Tensors.leadingShape(q));
            launch(
                    FirstFlashKernel.FORWARD,
                    q,
                    tiles(q),
                    queries,
                    k.contiguous(),
                    v.contiguous(),
                    o,
                    l,
                    length(q),
                    length(k),
                    causal ? 1 : 0,
                    scale(q));
            return new AttentionOutput(scope.escape(o), scope.escape(l));
        }
    }

    @Override
    public AttentionGradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        requireSupported(q, k, v);
        try (var scope = MemoryScope.open()) {
            Tensor queries = q.contiguous();
            Tensor keys = k.contiguous();
            Tensor values = v.contiguous();
            Tensor dOut = dO.contiguous();
            Tensor logSumExp = l.contiguous();
            Tensor delta = Gpu.of(q).empty(Tensors.leadingShape(q));
            long rows = delta.numel();
            launch(FirstFlashKernel.DELTA, q, IntegerMath.ceilDiv(rows, WARPS), o.contiguous(), dOut, delta, rows);
            Tensor dQ = torch.empty_like(queries);
            Tensor dK = torch.empty_like(keys);
            Tensor dV = torch.empty_like(values);
            int masked = causal ? 1 : 0;
            launch(
                    FirstFlashKernel.BACKWARD_KEYS,
                    q,
                    tiles(k),
                    queries,
                    keys,
                    values,
                    dOut,
                    logSumExp,
                    delta,
                    dK,
                    dV,
                    length(q),
                    length(k),
                    masked,
                    scale(q));
            launch(
                    FirstFlashKernel.BACKWARD_QUERIES,
                    q,
                    tiles(q),
                    queries,
                    keys,
                    values,
                    dOut,
                    logSumExp,
                    delta,
                    dQ,
                    length(q),
                    length(k),
                    masked,
                    scale(q));
            return new AttentionGradients(scope.escape(dQ), scope.escape(dK), scope.escape(dV));
        }
    }

    private static void requireSupported(Tensor q, Tensor k, Tensor v) {
        TensorChecks.type("q", q, TensorChecks.KERNEL_TYPES);
        if (!q.is_cuda()) {
            throw new IllegalArgumentException("q must be on a CUDA device for this kernel, not on cpu");
        }
        if (q.size(-1) > WIDEST) {
            throw new IllegalArgumentException(
                    "q must have d of at most " + WIDEST + " for this kernel, not " + q.size(-1));
        }
        FlashAttention.requireInputs(q, k, v);
    }

    private static void launch(FirstFlashKernel pass, Tensor q, long blocks, Object... arguments) {
        int width = (int) q.size(-1);
        var key = new FirstFlashKey(pass, DType.of(q), width, Gpu.of(q).device());
        Kernel kernel = KERNELS.computeIfAbsent(
                key,
                wanted -> KernelModule.load(SOURCE, pass.defines(wanted.type(), width), wanted.device())
                        .kernel(pass.function()));
        kernel.launch(new GridDim(Math.toIntExact(blocks)), BLOCK, pass.sharedBytes(width), arguments);
    }

    /** Returns the number of row tiles of x, over all heads: one per block. */
    private static long tiles(Tensor x) {
        int rows = WARPS * WARP_ROWS;
        long heads = x.numel() / (x.size(-2) * x.size(-1));
        return heads * IntegerMath.ceilDiv(x.size(-2), rows);
    }

    private static int length(Tensor x) {
        return Math.toIntExact(x.size(-2));
    }

    private static float scale(Tensor q) {
        return (float) (1 / Math.sqrt(q.size(-1)));
    }
}
