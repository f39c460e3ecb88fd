package cs336.numbers;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * The source files whose memory, time or results each file of measurements contains, as Git path specifications
 * relative to the project's root.
 */
final class MeasuredSources {
    private static final String JAVA = "src/main/java/cs336/";
    private static final List<String> STEP =
            List.of(JAVA + "basics", JAVA + "bench/Benchmark.java", JAVA + "bench/Stopwatch.java");
    private static final List<String> NORMS = List.of(
            JAVA + "kernels/norms",
            "kernels/rmsnorm.cu",
            "kernels/column_sum.cu",
            "kernels/row_sum.cuh",
            "kernels/elements.cuh");
    private static final List<String> ATTENTION = List.of(
            JAVA + "kernels/attention",
            JAVA + "bench/DoBench.java",
            "kernels/flash_*",
            "kernels/*mma.cuh",
            "kernels/hopper.cuh",
            "kernels/exponential.cuh");
    private static final List<String> GEMM =
            List.of(JAVA + "kernels/gemm", "kernels/gemm*", "kernels/operand_copy.cu", "kernels/epilogue.cuh");
    private static final List<String> RANKS =
            List.of(JAVA + "basics", JAVA + "distributed/collectives", JAVA + "distributed/training");
    private static final List<String> COMPILER = List.of(JAVA + "compile", "kernels/fused.cuh", "kernels/adamw.cu");
    private static final List<String> MODELS = List.of(":(glob)" + JAVA + "scaling/*.java", JAVA + "scaling/memory");
    private static final List<String> PEERS = List.of("peers/*.py");

    /** The sources by prefix of the file's name; the longest matching prefix counts. */
    private static final Map<String, List<String>> SOURCES = new TreeMap<>(Map.ofEntries(
            Map.entry("benchmarking", STEP),
            Map.entry("normalization", concat(STEP, NORMS)),
            Map.entry("profiling", concat(STEP, List.of(":(glob)" + JAVA + "profile/*.java"))),
            Map.entry("memory", concat(STEP, List.of(JAVA + "profile/memory"))),
            Map.entry("gradient_checkpointing", concat(STEP, List.of(JAVA + "checkpointing", JAVA + "profile/memory"))),
            Map.entry("mixed_precision", List.of(JAVA + "precision")),
            Map.entry("rmsnorm", NORMS),
            Map.entry("weighted_sum", concat(NORMS, List.of("kernels/weighted_sum.cu"))),
            Map.entry("pytorch_attention", concat(ATTENTION, List.of(JAVA + "basics/PlainAttention.java"))),
            Map.entry("flash", ATTENTION),
            Map.entry("torch_compile", concat(STEP, concat(COMPILER, concat(ATTENTION, GEMM)))),
            Map.entry("torch_compile_attention", COMPILER),
            Map.entry("torch_compile_rmsnorm", COMPILER),
            Map.entry("kernel_resources", List.of("kernels/*.cu", "kernels/*.cuh", JAVA + "kernels")),
            Map.entry(
                    "kernel_executions",
                    List.of("kernels/*.cu", "kernels/*.cuh", JAVA + "kernels", "notebooks/0[568]-*.ipynb")),
            Map.entry(
                    "distributed_communication",
                    List.of(JAVA + "distributed/collectives", JAVA + "distributed/bench/AllReduce*")),
            Map.entry("link_topology", List.of(JAVA + "distributed/bench/LinkTopology.java")),
            Map.entry("ddp", concat(RANKS, List.of(JAVA + "distributed/bench/Ddp*"))),
            Map.entry("optimizer_state_sharding", concat(RANKS, List.of(JAVA + "distributed/bench/Shard*"))),
            Map.entry(
                    "fsdp",
                    concat(
                            concat(RANKS, List.of(JAVA + "distributed/bench/Fsdp*", JAVA + "checkpointing")),
                            concat(ATTENTION, NORMS))),
            Map.entry("communication_accounting", MODELS),
            Map.entry("parallelism", MODELS),
            Map.entry("bucket", MODELS),
            Map.entry("scaling", MODELS),
            Map.entry("isoflops", List.of(JAVA + "scaling/laws"))));

    private MeasuredSources() {}

    /**
     * Returns the sources that rows of a file measure; empty if none are declared.
     *
     * @param problem name of the file of measurements, without {@code .csv}
     * @param versions software versions of the rows; they include Python for rows of a peer program
     */
    static List<String> of(String problem, String versions) {
        if (versions.contains("python ")) {
            return PEERS;
        }
        List<String> longest = List.of();
        for (Map.Entry<String, List<String>> entry : SOURCES.entrySet()) { // a prefix precedes its extensions
            if (problem.startsWith(entry.getKey())) {
                longest = entry.getValue();
            }
        }
        return longest;
    }

    /** Returns the declared sources of all files. */
    static List<String> all() {
        return Stream.concat(SOURCES.values().stream().flatMap(List::stream), PEERS.stream())
                .distinct()
                .toList();
    }

    private static List<String> concat(List<String> first, List<String> second) {
        return Stream.concat(first.stream(), second.stream()).toList();
    }
}
