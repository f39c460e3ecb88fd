package cs336.kernels.attention;

import cs336.kernels.attention.MmaTile.Pass;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.LaunchStream;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * FlashAttention-2 as CUDA kernels on tensor cores by mma.sync ({@code kernels/flash_mma_forward.cu} and
 * {@code flash_mma_backward.cu}): for every card from sm_80 on, fp16, bf16 and fp32, d up to 128. All results repeat
 * bit for bit: nothing is added in an order that may change.
 *
 * <p>Rows whose strides and addresses are not multiples of 16 bytes are copied first, as are rows of a d other than 16,
 * 32, 64 and 128, with zeros up to the next of these.
 *
 * @param products how fp32 inputs are multiplied; those of 16 bits are taken as they are
 */
public record MmaFlash(Products products) implements FlashVariant {
    /** Tensor cores have no fp32. What stands in for it: */
    public enum Products {
        /** Operands rounded to TF32, 11 significant bits. */
        TF32(1),
        /**
         * Operands as sums of two TF32 numbers and three products of them, as good as fp32, at a third of the speed.
         * Infinite inputs, and those above 3.4e38, make NaN.
         */
        TF32_X3(3);

        private final int count;

        Products(int count) {
            this.count = count;
        }

        /** Products of tensor cores for each product. */
        int count() {
            return count;
        }
    }

    private static final int LEAST_GENERATION = 8; // Ampere
    private static final Map<Work, Ready> READY = new ConcurrentHashMap<>();
    private static final int LAST = -1;

    /** What decides on a kernel: which pass, over how many rows of all heads. */
    private record Work(Pass pass, DType type, Products products, int width, long rows, Device device) {
        MmaTile tile() {
            int count = type == DType.FLOAT32 ? products.count() : 1;
            Gpu card = Gpu.of(device);
            return MmaTileTable.of(pass, type, count, width, rows, card.architecture(), card.multiprocessors());
        }
    }

    /** A tile and its kernel on a card; kernels are loaded once a tile. */
    private record Ready(MmaTile tile, Kernel kernel) {
        private static final Map<Place, Kernel> KERNELS = new ConcurrentHashMap<>();

        private record Place(MmaTile tile, Device device) {}

        static Ready of(Work work) {
            MmaTile tile = work.tile();
            return new Ready(tile, KERNELS.computeIfAbsent(new Place(tile, work.device), Ready::load));
        }

        private static Kernel load(Place place) {
            Pass pass = place.tile.pass();
            return KernelModule.load(KernelSource.named(pass.file()), place.tile.defines(), place.device)
                    .kernel(pass.kernel());
        }
    }

    /** Whether this form takes such queries. */
    public static boolean takes(Tensor q) {
        return q.is_cuda()
                && TensorChecks.KERNEL_TYPES.contains(DType.of(q))
                && q.size(LAST) <= HeadWidths.WIDEST
                && Gpu.of(q).architecture().major() >= LEAST_GENERATION;
    }

    /**
     * @throws IllegalArgumentException if q is on no card from sm_80 on, of a type that kernels do not have, or too
     *     wide
     */
    @Override
    public Attended forward(Tensor q, Tensor k, Tensor v, boolean causal) {
        requireServed(q);
        try (var scope = MemoryScope.open()) {
            int width = HeadWidths.of(q.size(LAST));
            HeadRows queries = HeadRows.of(q, width);
            HeadRows keys = HeadRows.of(k, width);
            HeadRows values = HeadRows.of(v, width);
            Tensor o = torch.empty_like(q);
            HeadRows outputs = HeadRows.forResult(o, width);
            Tensor l = Gpu.of(q).empty(Tensors.leadingShape(q));
            double inPowersOfTwo = scale(q) / Math.log(2);
            try (var stream = LaunchStream.of(Gpu.of(q).device())) {
                launch(
                        stream,
                        Pass.FORWARD,
                        sizes(queries, keys, causal, inPowersOfTwo),
                        queries,
                        keys,
                        values,
                        outputs,
                        l);
            }
            outputs.copyTo(o);
            return new Attended(scope.escape(o), scope.escape(l));
        }
    }

    @Override
    public Gradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        requireServed(q);
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
            HeadRows ofQueries = HeadRows.forResult(dQ, width);
            HeadRows ofKeys = HeadRows.forResult(dK, width);
            HeadRows ofValues = HeadRows.forResult(dV, width);
            // L · log₂ e and D of each query: the first kernel writes them, the second one reads them.
            Tensor statistics = Gpu.of(q).empty(2, l.numel());
            Object[] sizes = sizes(queries, keys, causal, scale(q));
            try (var stream = LaunchStream.of(Gpu.of(q).device())) {
                launch(stream, Pass.QUERIES, sizes, queries, keys, values, outputs, dOut, l, statistics, ofQueries);
                launch(stream, Pass.KEYS, sizes, queries, keys, values, dOut, statistics, ofKeys, ofValues);
            }
            ofQueries.copyTo(dQ);
            ofKeys.copyTo(dK);
            ofValues.copyTo(dV);
            return new Gradients(scope.escape(dQ), scope.escape(dK), scope.escape(dV));
        }
    }

    private static void requireServed(Tensor q) {
        TensorChecks.type("q", q, TensorChecks.KERNEL_TYPES);
        if (!q.is_cuda()) {
            throw new IllegalArgumentException("q must be on a CUDA card for these kernels, not on cpu");
        }
        if (q.size(LAST) > HeadWidths.WIDEST) {
            throw new IllegalArgumentException(
                    "q must have d of at most " + HeadWidths.WIDEST + " for these kernels, not " + q.size(LAST));
        }
        GpuArchitecture architecture = Gpu.of(q).architecture();
        if (architecture.major() < LEAST_GENERATION) {
            throw new IllegalArgumentException(
                    "q must be on a card from sm_80 on for these kernels, not " + architecture);
        }
    }

    /**
     * Launches a kernel with the addresses of these tensors, the sizes, and the strides of those that are
     * {@link HeadRows}: the order of every kernel's parameters.
     *
     * @param tensors queries and keys come first
     */
    private void launch(LaunchStream stream, Pass pass, Object[] sizes, Object... tensors) {
        HeadRows owned = (HeadRows) tensors[pass == Pass.KEYS ? 1 : 0];
        Work work = new Work(
                pass,
                DType.of(owned.tensor()),
                products,
                owned.width(),
                owned.rows() * owned.heads(),
                Gpu.of(owned.tensor()).device());
        Ready ready = READY.computeIfAbsent(work, Ready::of);
        List<Object> arguments = new ArrayList<>();
        for (Object tensor : tensors) arguments.add(tensor instanceof HeadRows rows ? rows.tensor() : tensor);
        arguments.addAll(Arrays.asList(sizes));
        for (Object tensor : tensors) {
            if (tensor instanceof HeadRows rows) arguments.addAll(Arrays.asList(rows.strides()));
        }
        MmaTile tile = ready.tile;
        int blocks = Math.toIntExact((owned.rows() + tile.rows() - 1) / tile.rows());
        ready.kernel.launch(
                stream, owned.grid(blocks), new BlockDim(tile.threads()), tile.sharedBytes(), arguments.toArray());
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
