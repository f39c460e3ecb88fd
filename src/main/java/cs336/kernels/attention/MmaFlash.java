package cs336.kernels.attention;

import cs336.kernels.attention.MmaTile.MmaKernel;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.LaunchStream;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * FlashAttention-2 on tensor cores with mma.sync, {@code kernels/flash_mma_forward.cu} and
 * {@code flash_mma_backward.cu}: for every GPU from sm_80 on, in fp16, bf16 and fp32, with d up to 128. All results are
 * bitwise reproducible because no sum depends on timing.
 *
 * <p>Inputs are copied first if their rows are not 16-byte aligned, or if d is not 16, 32, 64, 80 or 128; the copy is
 * padded with zeros to the next of these widths.
 *
 * @param fp32 emulation of multiplications of fp32 inputs; 16-bit inputs are multiplied directly. With three
 *     multiplications, only keys, values and gradients of the output that are infinite or above 3.4e38 give NaN
 */
public record MmaFlash(Fp32Emulation fp32) implements FlashVariant {
    private static final int MOST_BATCHES = 65_535; // blocks of a grid in y
    private static final Map<MmaProblem, LoadedMmaTile> LOADED = new ConcurrentHashMap<>();
    private static final int LAST = -1;

    /** The kernel and problem size that determine the tile; rows counts those of all heads. */
    private record MmaProblem(MmaKernel kernel, DType type, Fp32Emulation fp32, int width, long rows, Device device) {
        MmaTile tile() {
            int products = type == DType.FLOAT32 ? fp32.products() : 1;
            Gpu gpu = Gpu.of(device);
            return MmaTileTable.of(kernel, type, products, width, rows, gpu.architecture(), gpu.multiprocessors());
        }
    }

    /** A tile with its kernel, loaded once per tile and device. */
    private record LoadedMmaTile(MmaTile tile, Kernel kernel) {
        private static final Map<MmaTileOnDevice, Kernel> KERNELS = new ConcurrentHashMap<>();

        private record MmaTileOnDevice(MmaTile tile, Device device) {}

        static LoadedMmaTile of(MmaTile tile, Device device) {
            Kernel kernel = KERNELS.computeIfAbsent(new MmaTileOnDevice(tile, device), LoadedMmaTile::load);
            return new LoadedMmaTile(tile, kernel);
        }

        private static Kernel load(MmaTileOnDevice key) {
            MmaKernel kernel = key.tile.kernel();
            return KernelModule.load(KernelSource.named(kernel.file()), key.tile.defines(), key.device)
                    .kernel(kernel.function());
        }
    }

    /**
     * Returns whether this variant supports the device, dtype and head dimension of these queries.
     *
     * @param q queries [B, T, d] or [B, H, T, d]
     */
    public static boolean supports(Tensor q) {
        Tensors.requireDefined("q", q);
        return q.is_cuda()
                && TensorChecks.KERNEL_TYPES.contains(DType.of(q))
                && q.size(LAST) <= HeadWidths.WIDEST
                && (q.dim() < 4 || q.size(0) <= MOST_BATCHES)
                && Gpu.of(q).runsKernels();
    }

    /**
     * {@inheritDoc}
     *
     * @throws IllegalArgumentException if q is not on a GPU from sm_80 on, or its dtype, d or B is not supported
     */
    @Override
    public AttentionOutput forward(Tensor q, Tensor k, Tensor v, boolean causal) {
        return forward(q, k, v, causal, Map.of());
    }

    /**
     * Returns the same as {@link #forward(Tensor, Tensor, Tensor, boolean)}.
     *
     * @param tiles tiles to use instead of those that {@link MmaTileTable} selects
     */
    AttentionOutput forward(Tensor q, Tensor k, Tensor v, boolean causal, Map<MmaKernel, MmaTile> tiles) {
        requireSupported(q, k, v);
        try (var scope = MemoryScope.open()) {
            int width = HeadWidths.of(q.size(LAST));
            HeadRows queries = HeadRows.of(q, width);
            HeadRows keys = HeadRows.of(k, width);
            HeadRows values = HeadRows.of(v, width);
            Tensor o = torch.empty_like(q);
            HeadRows outputs = HeadRows.forResult(o, width);
            Tensor l = Gpu.of(q).empty(Tensors.leadingShape(q));
            double scaleLog2 = scale(q) / Math.log(2);
            try (var stream = LaunchStream.of(Gpu.of(q).device())) {
                launch(
                        stream,
                        tiles,
                        MmaKernel.FORWARD,
                        sizes(queries, keys, causal, scaleLog2),
                        queries,
                        keys,
                        values,
                        outputs,
                        l);
            }
            outputs.copyTo(o);
            return new AttentionOutput(scope.escape(o), scope.escape(l));
        }
    }

    @Override
    public AttentionGradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        return backward(q, k, v, o, l, dO, causal, Map.of());
    }

    /**
     * Returns the same as {@link #backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, boolean)}.
     *
     * @param tiles tiles to use instead of those that {@link MmaTileTable} selects
     */
    AttentionGradients backward(
            Tensor q,
            Tensor k,
            Tensor v,
            Tensor o,
            Tensor l,
            Tensor dO,
            boolean causal,
            Map<MmaKernel, MmaTile> tiles) {
        requireSupported(q, k, v);
        try (var scope = MemoryScope.open()) {
            int width = HeadWidths.of(q.size(LAST));
            HeadRows queries = HeadRows.of(q, width);
            HeadRows keys = HeadRows.of(k, width);
            HeadRows values = HeadRows.of(v, width);
            HeadRows outputs = HeadRows.of(o, width);
            HeadRows dOut = HeadRows.of(dO, width);
            Tensor dQ = torch.empty_like(q);
            Tensor dK = torch.empty_like(k);
            Tensor dV = torch.empty_like(v);
            HeadRows dQRows = HeadRows.forResult(dQ, width);
            HeadRows dKRows = HeadRows.forResult(dK, width);
            HeadRows dVRows = HeadRows.forResult(dV, width);
            // L · log₂ e and D of each query: the first kernel writes them, the second one reads them. [2, B · H · T]
            Tensor statistics = Gpu.of(q).empty(2, l.numel());
            Object[] sizes = sizes(queries, keys, causal, scale(q));
            try (var stream = LaunchStream.of(Gpu.of(q).device())) {
                launch(
                        stream,
                        tiles,
                        MmaKernel.QUERIES,
                        sizes,
                        queries,
                        keys,
                        values,
                        outputs,
                        dOut,
                        l.contiguous(),
                        statistics,
                        dQRows);
                launch(stream, tiles, MmaKernel.KEYS, sizes, queries, keys, values, dOut, statistics, dKRows, dVRows);
            }
            dQRows.copyTo(dQ);
            dKRows.copyTo(dK);
            dVRows.copyTo(dV);
            return new AttentionGradients(scope.escape(dQ), scope.escape(dK), scope.escape(dV));
        }
    }

    private static void requireSupported(Tensor q, Tensor k, Tensor v) {
        TensorChecks.type("q", q, TensorChecks.KERNEL_TYPES);
        if (!q.is_cuda()) {
            throw new IllegalArgumentException("q must be on a CUDA device for these kernels, not on cpu");
        }
        if (q.size(LAST) > HeadWidths.WIDEST) {
            throw new IllegalArgumentException(
                    "q must have d of at most " + HeadWidths.WIDEST + " for these kernels, not " + q.size(LAST));
        }
        if (q.dim() > 3 && q.size(0) > MOST_BATCHES) {
            throw new IllegalArgumentException(
                    "q must have a batch size of at most " + MOST_BATCHES + " for these kernels, not " + q.size(0));
        }
        Gpu gpu = Gpu.of(q);
        if (!gpu.runsKernels()) {
            throw new IllegalArgumentException(
                    "q must be on a GPU of sm_80 or newer for these kernels, not " + gpu.architecture());
        }
        FlashAttention.requireInputs(q, k, v);
    }

    /**
     * Launches a kernel. Every kernel's parameters are the addresses of its tensors, the sizes, and the strides of
     * those tensors that are {@link HeadRows}.
     *
     * @param tensors tensors and {@link HeadRows}, starting with queries and keys
     */
    private void launch(
            LaunchStream stream,
            Map<MmaKernel, MmaTile> tiles,
            MmaKernel mmaKernel,
            Object[] sizes,
            Object... tensors) {
        HeadRows own = (HeadRows) tensors[mmaKernel == MmaKernel.KEYS ? 1 : 0];
        var problem = new MmaProblem(
                mmaKernel,
                DType.of(own.tensor()),
                fp32,
                own.width(),
                own.rows() * own.heads(),
                Gpu.of(own.tensor()).device());
        LoadedMmaTile loaded = tiles.containsKey(mmaKernel)
                ? LoadedMmaTile.of(tiles.get(mmaKernel), problem.device)
                : LOADED.computeIfAbsent(problem, p -> LoadedMmaTile.of(p.tile(), p.device));
        List<Object> arguments = new ArrayList<>();
        for (Object tensor : tensors) {
            arguments.add(tensor instanceof HeadRows rows ? rows.tensor() : tensor);
        }
        arguments.addAll(Arrays.asList(sizes));
        for (Object tensor : tensors) {
            if (tensor instanceof HeadRows rows) {
                arguments.addAll(Arrays.asList(rows.strides()));
            }
        }
        MmaTile tile = loaded.tile;
        int blocks = Math.toIntExact(IntegerMath.ceilDiv(own.rows(), tile.rows()));
        loaded.kernel.launch(
                stream, own.grid(blocks), new BlockDim(tile.threads()), tile.sharedBytes(), arguments.toArray());
    }

    private static Object[] sizes(HeadRows queries, HeadRows keys, boolean causal, double scale) {
        return new Object[] {
            Math.toIntExact(queries.rows()), Math.toIntExact(keys.rows()), causal ? 1 : 0, (float) scale
        };
    }

    private static double scale(Tensor q) {
        return 1 / Math.sqrt(q.size(LAST));
    }
}
