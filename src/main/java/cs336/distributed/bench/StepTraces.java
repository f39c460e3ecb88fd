package cs336.distributed.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelOptions;
import cs336.bench.Samples;
import cs336.distributed.collectives.ProcessGroup;
import cs336.profile.Activity;
import cs336.profile.Breakdown;
import cs336.profile.DeviceEvent;
import cs336.profile.KernelKind;
import cs336.profile.Overlap;
import cs336.profile.Profile;
import cs336.profile.Profiler;
import cs336.profile.ProfilerOptions;
import cs336.profile.Trace;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;

/**
 * The traces of data-parallel training steps, {@code <mode>-rank<n>.json.gz}, and the file
 * {@code <problem>_overlap.csv} with the {@link StepOverlap} of each recorded step and rank 0's GPU time by kind of
 * kernel.
 */
final class StepTraces {
    /** The description of the option {@code --trace}. */
    static final String OPTION_DESCRIPTION =
            "record three more steps of each mode as one trace per rank: <mode>-rank<n>.json.gz; with several models, in"
                    + " a folder for each; operators are not recorded, because that slows down launch-bound steps";

    private static final int STEPS = 3;

    private final ProcessGroup group;
    private final Path folder;
    private final MeasurementStore store;
    private final List<Case> missing;

    private StepTraces(ProcessGroup group, Path folder, MeasurementStore store, List<Case> missing) {
        this.group = group;
        this.folder = folder;
        this.store = store;
        this.missing = missing;
    }

    /** Returns the folder for the traces of one of several models; null without traces. */
    static String folder(Path traces, ModelOptions.Model model, List<ModelOptions.Model> all) {
        if (traces == null) {
            return null;
        }
        return (all.size() == 1 ? traces : traces.resolve(model.label())).toString();
    }

    /** Opens the stored overlaps. All ranks call it. */
    static StepTraces open(ProcessGroup group, TracedPlan plan) throws IOException {
        MeasurementStore store = MeasurementStore.of(file(plan), group.device(), group.size());
        List<Case> requested = requested(plan);
        if (requested.isEmpty()) {
            return new StepTraces(group, null, store, List.of());
        }
        return new StepTraces(group, Path.of(plan.traceFolder()), store, store.lacking(group, requested));
    }

    /** Returns the file of the overlaps. */
    static MeasurementFile file(TracedPlan plan) {
        return plan.training().storage().withSuffix("_overlap");
    }

    /** Returns the cases whose traces are requested. */
    static List<Case> requested(TracedPlan plan) {
        return plan.training().cases().stream()
                .filter(plan::traces)
                .map(c ->
                        new Case(c.workload(), c.implementation(), c.parameters(), c.settings(), StepOverlap.metrics()))
                .toList();
    }

    /** Returns the cases to record, whose overlaps are not stored. */
    List<Case> missing() {
        return missing;
    }

    /**
     * Records steps of a case on all ranks, and stores their overlaps on rank 0.
     *
     * @param step a training step that synchronizes the device before and after it
     */
    void record(Case c, Runnable step) throws IOException {
        Files.createDirectories(folder);
        step.run(); // the first step determines the order of the collectives
        group.barrier();
        Profile profile;
        try (var profiler = Profiler.start(ProfilerOptions.standard().withoutOperators())) {
            for (int i = 0; i < STEPS; i++) {
                if (i > 0) {
                    profiler.step();
                }
                step.run();
            }
            profile = profiler.stop();
        }
        String label = DdpBenchmark.label(c);
        profile.write(folder.resolve(label + "-rank" + group.rank() + ".json.gz"));
        List<Trace> steps =
                IntStream.range(0, STEPS).mapToObj(profile.trace()::step).toList();
        var overlaps = new ArrayList<StepOverlap>();
        steps.forEach(each -> overlaps.add(StepOverlap.of(Activity.of(each).get(0))));
        List<ArrayList<StepOverlap>> ranks = group.allGather(overlaps);
        if (group.rank() == 0) {
            List<Samples> samples = new ArrayList<>(StepOverlap.samples(ranks));
            samples.addAll(kernelTimes(steps));
            store.put(c, samples);
            System.out.printf("traces of %s are in %s%n", label, folder);
        }
    }

    /**
     * Returns the duration of all kernels and copies of each kind in each step. A kernel of this project is its own
     * kind, and so are copies between GPU and host.
     */
    private static List<Samples> kernelTimes(List<Trace> steps) {
        var kinds = new TreeMap<String, double[]>();
        for (int i = 0; i < STEPS; i++) {
            for (DeviceEvent event : steps.get(i).work()) {
                kinds.computeIfAbsent(kind(event), n -> new double[STEPS])[i] += event.duration() / NANOS_PER_MS;
            }
        }
        return kinds.entrySet().stream()
                .map(kind -> new Samples(
                        Metric.ms("kernels " + kind.getKey()),
                        Arrays.stream(kind.getValue()).boxed().toList()))
                .toList();
    }

    private static String kind(DeviceEvent event) {
        if (event.isHostTransfer()) {
            return "host_transfer";
        }
        KernelKind kind = event.kernelKind();
        return kind == KernelKind.OURS ? event.name() : kind.toString();
    }

    /**
     * The overlap of communication and computation in one recorded step of one rank, in nanoseconds.
     *
     * @param communication time in which the rank communicated
     * @param overlapped time in which it communicated and computed
     * @param computation time in which it computed
     * @param span duration of the step
     */
    private record StepOverlap(long communication, long overlapped, long computation, long span)
            implements Serializable {
        private static final List<Metric> METRICS = List.of(
                Metric.ms("communication"),
                Metric.ms("overlapped"),
                Metric.ms("exposed"),
                new Metric("overlap-ratio", ""),
                new Metric("computation-share", "%"));
        private static final List<ToDoubleFunction<StepOverlap>> VALUES = List.of(
                step -> step.communication / NANOS_PER_MS,
                step -> step.overlapped / NANOS_PER_MS,
                step -> (step.communication - step.overlapped) / NANOS_PER_MS,
                step -> (double) step.overlapped / step.communication, // NaN with a single rank, which sends nothing
                step -> 100.0 * step.computation / step.span);

        /** Returns the metrics that {@link #samples} yields. */
        static List<Metric> metrics() {
            return METRICS;
        }

        /** Returns the overlap in a step's device activity. */
        static StepOverlap of(Activity activity) {
            Overlap overlap = Overlap.of(activity);
            Breakdown breakdown = Breakdown.of(activity);
            return new StepOverlap(
                    overlap.communication(), overlap.overlapped(), breakdown.computation(), breakdown.span());
        }

        /**
         * Returns one value per step and metric. It is that of the rank that communicated least in that step, because
         * the communication of the others includes waiting for this rank.
         *
         * @param ranks the steps of each rank
         */
        static List<Samples> samples(List<? extends List<StepOverlap>> ranks) {
            var slowest = new ArrayList<StepOverlap>();
            for (int i = 0; i < ranks.get(0).size(); i++) {
                int step = i;
                slowest.add(ranks.stream()
                        .map(rank -> rank.get(step))
                        .min(Comparator.comparingLong(StepOverlap::communication))
                        .orElseThrow());
            }
            var samples = new ArrayList<Samples>();
            for (int i = 0; i < METRICS.size(); i++) {
                samples.add(new Samples(
                        METRICS.get(i),
                        slowest.stream().mapToDouble(VALUES.get(i)).boxed().toList()));
            }
            return samples;
        }
    }
}
