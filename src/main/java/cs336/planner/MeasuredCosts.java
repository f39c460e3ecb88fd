package cs336.planner;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Measurements;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Project;
import cs336.numbers.MeasurementQuery;
import cs336.planner.LinearCost.MeasuredWork;
import cs336.units.Seconds;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tech.tablesaw.api.Row;

/**
 * Costs of kernels on an H200, fitted to stored measurements: the kernel times and launches of all five model sizes at
 * four context lengths in {@code h200/profiling.csv}, and FlashAttention in {@code h200/flash_benchmarking.csv}. They
 * exist for fp32 and bf16; fp16 has the costs of bf16.
 *
 * <p>Each cost is linear in two amounts of {@link StepWork}, with one pair of coefficients for the forward pass and one
 * for the backward pass:
 *
 * <ul>
 *   <li>GEMMs: FLOP, and elements of the weight matrices;
 *   <li>plain attention: pairs of query and key, and elements of queries;
 *   <li>FlashAttention: pairs times the width of a head, and pairs;
 *   <li>memory-bound kernels: bytes of saved activations, and parameters, which autocast casts.
 * </ul>
 *
 * @param forward costs of the forward pass
 * @param backward costs of the backward pass
 * @param optimizerMs time of AdamW in ms for each parameter
 * @param launches number of kernel launches of a step, as a function of the number of blocks and a constant 1
 * @param forwardLaunches number of kernel launches of a forward pass, likewise
 * @param launchMs time in ms in which the host launches one kernel, from the small model at 128 tokens, whose steps are
 *     launch-bound ({@code benchmarking_script.csv} and {@code torch_compile.csv}); it depends on the CPU
 */
record MeasuredCosts(
        PassCosts forward,
        PassCosts backward,
        double optimizerMs,
        LinearCost launches,
        LinearCost forwardLaunches,
        double launchMs) {
    private static final String FOLDER = "data/measurements/h200";
    private static final int LONG_CONTEXT = 16_384; // one head fills the GPU from here on

    private static final Map<Precision, MeasuredCosts> FITTED = new EnumMap<>(Precision.class);

    /**
     * The costs of one pass.
     *
     * @param gemms cost of GEMMs outside of attention
     * @param plainAttention cost of plain attention, with its softmax
     * @param flashAttention cost of FlashAttention
     * @param memoryBound cost of all other kernels
     */
    record PassCosts(LinearCost gemms, LinearCost plainAttention, LinearCost flashAttention, LinearCost memoryBound) {}

    /** Medians of a profiled step by metric, and its work. */
    private record ProfiledStep(StepWork work, Map<String, Double> ms) {
        double get(String metric) {
            return ms.getOrDefault(metric, 0.0);
        }

        double gemms(String pass) {
            return get(pass + "-matmul") - get(pass + "-attention-matmul");
        }

        double attention(String pass) {
            return get(pass + "-attention-scores") + get(pass + "-attention-softmax") + get(pass + "-attention-values");
        }

        double memoryBound(String pass) {
            return get(pass + "-kernels") - gemms(pass) - attention(pass);
        }
    }

    /**
     * Returns the costs of a precision. The first call fits them.
     *
     * @throws IllegalArgumentException if the precision is TF32, of which no profile is stored
     * @throws IOException if a file of measurements cannot be read
     */
    static synchronized MeasuredCosts of(Precision precision) throws IOException {
        if (precision.tf32()) {
            throw new IllegalArgumentException(
                    "dtype must be fp32, bf16 or fp16, not tf32: no profile of it is stored");
        }
        Precision profiled = precision == Precision.FP16 ? Precision.BF16 : precision;
        MeasuredCosts costs = FITTED.get(profiled);
        if (costs == null) {
            costs = StoredRows.use(FOLDER, () -> fitted(profiled));
            FITTED.put(profiled, costs);
        }
        return costs;
    }

    private static MeasuredCosts fitted(Precision profiled) throws IOException {
        List<ProfiledStep> steps = profiledSteps(profiled);
        if (steps.isEmpty()) {
            throw new IllegalArgumentException("there is no profile of a step in " + profiled);
        }
        LinearCost launches = fit(steps, step -> step.work.blocks(), step -> 1, step -> step.get("total-launches"));
        double optimizer = steps.stream()
                .mapToDouble(step -> step.get("optimizer-kernels") / step.work.parameters())
                .average()
                .orElseThrow();
        return new MeasuredCosts(
                costs("forward", steps, profiled),
                costs("backward", steps, profiled),
                optimizer,
                launches,
                fit(steps, step -> step.work.blocks(), step -> 1, step -> step.get("forward-launches")),
                launchMs(profiled, launches));
    }

    /** Returns the time of one launch in the training step of the small model at 128 tokens, which is launch-bound. */
    private static double launchMs(Precision precision, LinearCost launches) throws IOException {
        String file = precision == Precision.FP32 ? "benchmarking_script" : "torch_compile";
        double ms = MeasurementQuery.of(Project.path(FOLDER))
                .quantity(file + "[size=small, year=2025, batch=4, context=128, dtype=" + precision
                        + ", pass=step, implementation=plain, metric=total].median")
                .value();
        return ms / (launches.perFirst() * ModelSize.SMALL.config().numLayers() + launches.perSecond());
    }

    private static PassCosts costs(String pass, List<ProfiledStep> steps, Precision precision) throws IOException {
        return new PassCosts(
                fit(steps, s -> s.work.denseFlop(), s -> s.work.matrixElements(), s -> s.gemms(pass)),
                fit(steps, s -> s.work.pairs(), s -> s.work.rowElements(), s -> s.attention(pass)),
                flash(pass, precision),
                fit(steps, s -> s.work.activationBytes(), s -> s.work.parameters(), s -> s.memoryBound(pass)));
    }

    private static LinearCost fit(
            List<ProfiledStep> steps,
            ToDoubleFunction<ProfiledStep> first,
            ToDoubleFunction<ProfiledStep> second,
            ToDoubleFunction<ProfiledStep> ms) {
        return LinearCost.fit(steps.stream()
                .map(s -> new MeasuredWork(first.applyAsDouble(s), second.applyAsDouble(s), ms.applyAsDouble(s)))
                .toList());
    }

    private static List<ProfiledStep> profiledSteps(Precision precision) throws IOException {
        var steps = new LinkedHashMap<String, ProfiledStep>();
        String file = FOLDER + "/profiling.csv";
        for (Row row : Measurements.read(Project.path(file))) {
            if (!row.getString("pass").equals("step") || !row.getString("dtype").equals(precision.toString())) {
                continue;
            }
            String step = Stream.of("size", "year", "batch", "context")
                    .map(name -> String.valueOf(row.getObject(name)))
                    .collect(Collectors.joining(" "));
            if (!steps.containsKey(step)) {
                steps.put(step, StoredRows.use(StoredRows.place(file, row), () -> profiledStep(row, precision)));
            }
            steps.get(step).ms.put(row.getString("metric"), row.getDouble("median"));
        }
        return List.copyOf(steps.values());
    }

    private static ProfiledStep profiledStep(Row row, Precision precision) {
        ModelEdition edition = ModelEdition.ofYear(row.getInt("year"));
        StepPlan plan = StepPlan.of(ModelSize.parse(row.getString("size")).config(edition, row.getInt("context")))
                .withBatch(row.getInt("batch"))
                .withPrecision(precision);
        return new ProfiledStep(StepWork.of(plan), new LinkedHashMap<>());
    }

    /** Returns the cost of causal FlashAttention, from the times of long sequences. */
    private static LinearCost flash(String pass, Precision precision) throws IOException {
        String implementation = precision == Precision.FP32 ? "flash-3xtf32" : "flash";
        var measured = new ArrayList<MeasuredWork>();
        for (Row row : Measurements.read(Project.path(FOLDER + "/flash_benchmarking.csv"))) {
            if (!row.getString("implementation").equals(implementation)
                    || !row.getString("dtype").equals(precision.toString())
                    || !row.getString("causal").equals("true")
                    || row.getInt("context") < LONG_CONTEXT) {
                continue;
            }
            double pairs =
                    (double) row.getInt("batch") * row.getInt("heads") * row.getInt("context") * row.getInt("context");
            double ms = row.getDouble("median");
            if (row.getString("metric").equals(pass)) {
                measured.add(new MeasuredWork(pairs * row.getInt("d"), pairs, ms));
            }
        }
        if (measured.isEmpty()) {
            throw new IOException(FOLDER + "/flash_benchmarking.csv must have causal rows of " + implementation + " in "
                    + precision + " with " + LONG_CONTEXT + " tokens or more");
        }
        return LinearCost.fit(measured);
    }

    /** Returns the time in which the host launches the kernels of a pass. */
    Seconds host(StepWork work, Pass pass) {
        boolean backwards = pass.valuesPerParameter() > 1;
        LinearCost launched = backwards ? launches : forwardLaunches;
        double recomputed = backwards ? forwardLaunches.perFirst() * work.blocks() * work.recomputed() : 0;
        return Seconds.ms(launchMs * (launched.perFirst() * work.blocks() + launched.perSecond() + recomputed));
    }
}
