package cs336.kernels;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.bench.ArgumentCheck;
import cs336.bench.Project;
import cs336.compile.Compiled;
import cs336.kernels.attention.FirstFlash;
import cs336.kernels.attention.FlashVariant;
import cs336.kernels.attention.HopperFlash;
import cs336.kernels.attention.MmaFlash;
import cs336.kernels.gemm.Epilogue;
import cs336.kernels.gemm.Fp32Gemm;
import cs336.kernels.gemm.LinearProblem;
import cs336.kernels.gemm.MixedGemm;
import cs336.kernels.gemm.Tf32Gemm;
import cs336.kernels.loss.FusedCrossEntropy;
import cs336.kernels.norms.FusedRmsNorm;
import cs336.kernels.norms.WeightedSum;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.Route;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Launches every kernel on small inputs, so that {@code test/sanitize} can check each memory access. Lengths are no
 * multiples of tiles, and a query has no keys. The launches are divided into groups that can run in separate processes.
 *
 * <p>On an H200, memcheck and synccheck report nothing. racecheck 2025.3 reports accesses to shared memory in three
 * places, all of which are ordered or harmless:
 *
 * <ul>
 *   <li>{@code clearQueriesWithoutKeys} of {@code flash_hopper_backward} and {@code flash_mma_keys}: every warp sets
 *       the same queries to zero, while others may read them. All write the same zeros, and a warp reads the queries
 *       after its own writes. Its P and dS are 0 for such a query.
 *   <li>{@code bulkLoad} of {@code flash_hopper_backward}, against the first read of L and D: consumers wait for the
 *       mbarrier that counts the bytes of this load. racecheck does not follow all uses of mbarriers before 2025.4.
 *   <li>{@code rmsnorm_backward}, the sum over slots: slot s reads {@code total} after the {@code __syncthreads} that
 *       follows the write of slot s − 1. All threads of the block reach this barrier, in converged code.
 * </ul>
 */
public final class SmallLaunches {
    /** The name of a kernel after {@code __global__} and its attributes. */
    private static final Pattern KERNEL = Pattern.compile("__global__[^;{]*?\\b([a-z]\\w*)\\(");

    private static final List<DType> FLOATS = List.of(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    /** The groups by name; test/sanitize names them too. */
    static final Map<String, Consumer<SmallLaunches>> GROUPS = new TreeMap<>(Map.of(
            "norms",
            SmallLaunches::norms,
            "flash-first",
            small -> small.attention(FLOATS, new FirstFlash()),
            "flash-mma",
            SmallLaunches::mmaAttention,
            "flash-hopper",
            SmallLaunches::hopperAttention,
            "adamw",
            SmallLaunches::adamW,
            "gemm",
            SmallLaunches::gemm,
            "loss",
            SmallLaunches::loss,
            "generated",
            SmallLaunches::generated));

    private static final int QUERIES = 150;
    private static final int KEYS = 170;

    private final Device gpu = Device.cuda(0);

    private SmallLaunches() {}

    /**
     * Prints the kernels that were launched, one in a line.
     *
     * @param groups names of the groups to launch; none for all of them
     */
    public static void main(String[] groups) {
        launch(groups.length == 0 ? GROUPS.keySet() : List.of(groups))
                .forEach(name -> System.out.println("launched " + name));
    }

    /** Returns the names of all kernels in {@code kernels/}. */
    static TreeSet<String> names() throws IOException {
        var names = new TreeSet<String>();
        try (Stream<Path> files = Files.list(Project.path("kernels"))) {
            for (Path file : files.filter(f -> f.toString().endsWith(".cu")).toList()) {
                KERNEL.matcher(Files.readString(file)).results().forEach(match -> names.add(match.group(1)));
            }
        }
        return names;
    }

    /** Launches the kernels of these groups that this GPU supports, and returns their names. */
    static TreeSet<String> launch(Collection<String> groups) {
        groups.forEach(group -> ArgumentCheck.oneOf("group", group, List.copyOf(GROUPS.keySet())));
        var small = new SmallLaunches();
        Torch.seed(1);
        try (var scope = MemoryScope.open();
                var log = KernelLog.open()) {
            groups.forEach(group -> GROUPS.get(group).accept(small));
            small.gpu.synchronize();
            return log.entries().stream()
                    .filter(entry -> entry.route() == Route.KERNEL)
                    .map(KernelLog.KernelLogEntry::name)
                    .collect(Collectors.toCollection(TreeSet::new));
        }
    }

    private Tensor random(DType dtype, long... shape) {
        return torch.randn(shape, gpu.options(DType.FLOAT32))
                .to(dtype.scalarType())
                .detach();
    }

    private Tensor trainable(DType dtype, long... shape) {
        return random(dtype, shape).set_requires_grad(true);
    }

    private void norms() {
        for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16)) {
            for (int width : new int[] {50, 1024, 4097, 16_384, 65_536}) {
                try (var scope = MemoryScope.open()) {
                    Tensor x = trainable(dtype, 37, width);
                    Tensor weight = trainable(dtype, width);
                    Backward.of(FusedRmsNorm.apply(x, weight, 1e-5).sum()).run();
                    Backward.of(WeightedSum.apply(x, weight).sum()).run();
                }
            }
        }
    }

    private boolean isHopper() {
        try (var scope = MemoryScope.open()) {
            return HopperFlash.supports(random(DType.BFLOAT16, 1, 1, 1, 64));
        }
    }

    private void mmaAttention() {
        attention(FLOATS, new MmaFlash(Fp32Emulation.TF32));
        attention(List.of(DType.FLOAT32), new MmaFlash(Fp32Emulation.TF32_X3));
    }

    private void hopperAttention() {
        if (isHopper()) {
            attention(List.of(DType.BFLOAT16, DType.FLOAT16), new HopperFlash(false));
            attention(List.of(DType.BFLOAT16, DType.FLOAT16), new HopperFlash(true));
        }
    }

    private void attention(List<DType> dtypes, FlashVariant variant) {
        for (DType dtype : dtypes) {
            for (int d : new int[] {16, 64, 128}) {
                attention(variant, dtype, d);
            }
        }
    }

    private void attention(FlashVariant variant, DType dtype, int d) {
        for (boolean causal : new boolean[] {false, true}) {
            try (var scope = MemoryScope.open()) {
                Tensor q = random(dtype, 1, 2, QUERIES, d);
                q.select(2, 77).fill_(new Scalar(Double.NEGATIVE_INFINITY));
                Tensor k = random(dtype, 1, 2, KEYS, d).abs_().add_(new Scalar(1));
                Tensor v = random(dtype, 1, 2, KEYS, d);
                FlashVariant.AttentionOutput out = variant.forward(q, k, v, causal);
                variant.backward(q, k, v, out.o(), out.l(), random(dtype, 1, 2, QUERIES, d), causal);
            }
        }
    }

    private void adamW() {
        Map<String, Tensor> parameters = Map.of(
                "small", trainable(DType.FLOAT32, 3),
                "odd", trainable(DType.FLOAT32, 8_193),
                "large", trainable(DType.FLOAT32, 300, 129));
        try (var optimizer = new AdamW(parameters, AdamWSettings.of(1e-3))) {
            for (int step = 0; step < 2; step++) {
                parameters.values().forEach(p -> p.mutable_grad().put(torch.randn_like(p)));
                optimizer.step();
            }
        }
    }

    private void gemm() {
        if (Gpu.of(gpu).runsHopperKernels()) {
            for (int size : new int[] {132, 2_308}) { // 2,308: a cluster computes more than one tile
                for (Fp32Emulation emulation : Fp32Emulation.values()) {
                    for (boolean aByRows : new boolean[] {false, true}) {
                        Tensor a = aByRows
                                ? random(DType.FLOAT32, size, 104)
                                : random(DType.FLOAT32, 104, size).t();
                        new Fp32Gemm(emulation).compute(a, random(DType.FLOAT32, 104, size));
                    }
                }
                Tensor transposed = random(DType.FLOAT32, size, 100).t();
                new Fp32Gemm(Fp32Emulation.TF32_X3).compute(random(DType.FLOAT32, 131, 100), transposed);
            }
            for (Epilogue epilogue : Epilogue.values()) {
                int weights = epilogue == Epilogue.SWIGLU ? 2 : 1;
                for (int columns : new int[] {132, 9_004}) { // 9,004: a cluster computes more than one tile
                    new Tf32Gemm(epilogue)
                            .compute(operands(
                                    random(DType.FLOAT32, 513, 100), random(DType.FLOAT32, columns, 100), weights));
                }
                for (DType dtype : List.of(DType.BFLOAT16, DType.FLOAT16)) {
                    for (int columns : new int[] {136, 4_424}) {
                        new MixedGemm(epilogue)
                                .compute(operands(
                                        random(dtype, 1_030, 104), random(DType.FLOAT32, columns, 104), weights));
                    }
                    new MixedGemm(epilogue) // several clusters compute a tile
                            .compute(operands(random(dtype, 520, 1_000), random(DType.FLOAT32, 136, 1_000), weights));
                }
            }
            new Tf32Gemm(Epilogue.NONE)
                    .compute(operands(
                            random(DType.FLOAT32, 130, 300),
                            random(DType.FLOAT32, 192, 300),
                            LinearProblem.MOST_WEIGHTS));
        }
    }

    /** Returns X and several times the same weight. */
    private static Tensor[] operands(Tensor x, Tensor weight, int weights) {
        Tensor[] operands = new Tensor[1 + weights];
        Arrays.setAll(operands, i -> i == 0 ? x : weight);
        return operands;
    }

    private void loss() {
        for (DType dtype : List.of(DType.BFLOAT16, DType.FLOAT16)) {
            for (int columns : new int[] {50, 1001, 9_000}) {
                Tensor targets = torch.randint(columns, new long[] {37}, gpu.options(DType.INT64));
                new FusedCrossEntropy().replaceByGradients(random(dtype, 37, columns), targets);
            }
        }
    }

    /** Kernels that are generated from functions: pointwise, with sums over rows, and with sums over columns. */
    private void generated() {
        Tensor x = random(DType.FLOAT32, 37, 1001);
        Tensor y = random(DType.FLOAT32, 37, 1001);
        try (var pointwise = Compiled.of(in -> new Tensor[] {in[0].mul(in[1]).tanh()});
                var rows = Compiled.of(in -> new Tensor[] {in[0].mul(in[1]).softmax(-1)});
                var columns = Compiled.of(in -> new Tensor[] {in[0].mul(in[1]).sum(0)})) {
            for (int call = 0; call < 2; call++) {
                pointwise.apply(x, y);
                rows.apply(x, y);
                columns.apply(x, y);
            }
        }
    }
}
