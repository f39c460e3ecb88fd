package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.training.Strategy;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * A benchmark of data-parallel training of a Transformer language model: the same model, batch and optimizer under
 * several strategies and without communication.
 *
 * <p>Each rank has its own batch. The cases are interleaved over several rounds, see {@link TrainingPlan}; rank 0
 * stores the samples after each one. The metrics of a step:
 *
 * <ul>
 *   <li>{@code forward}: forward pass and loss;
 *   <li>{@code backward}: backward pass;
 *   <li>{@code communication}: from the end of the backward pass until the gradients are averaged. For strategies that
 *       communicate during the backward pass this is the exposed communication;
 *   <li>{@code optimizer};
 *   <li>{@code total}: measured wall time of the whole step, with the device synchronized only before and after it;
 *   <li>{@code communication-share}: percentage of communication in the sum of the four phases.
 * </ul>
 *
 * A compiled step has no phases, only a total and its messages.
 *
 * <p>On CUDA the phases are times between events in the compute stream, which do not delay the step. Each value is that
 * of the slowest rank in that step. {@code messages} is the number of gradient all-reduces per step,
 * {@code gradient-bytes} their total size.
 *
 * <p>If traces are requested, {@link StepTraces} records further steps of each case.
 */
public final class DdpBenchmark implements RankProgram<TracedPlan, StoredResult> {
    /** The mode without communication. */
    public static final String NONE = "none";

    private static final Metric TOTAL = Metric.ms("total");
    private static final Metric COMMUNICATION_PERCENTAGE = new Metric("communication-share", "%");
    private static final Metric MESSAGES = new Metric("messages", "");
    private static final Metric GRADIENTS = Metric.bytes("gradient-bytes");

    /**
     * Returns the case of a training setup whose steps run operator by operator.
     *
     * @param c the setup; its mode is {@link #NONE} or the name of a {@link Strategy}
     */
    public static Case caseOf(RankCase c) {
        return caseOf(c, StepExecution.EAGER);
    }

    /** Returns the case of a training setup with an execution of its steps. */
    static Case caseOf(RankCase c, StepExecution execution) {
        var metrics = new ArrayList<Metric>(List.of(TOTAL));
        if (execution == StepExecution.EAGER) {
            DdpTraining.PHASES.forEach(phase -> metrics.add(Metric.ms(phase)));
            metrics.add(COMMUNICATION_PERCENTAGE);
        }
        metrics.addAll(List.of(MESSAGES, GRADIENTS));
        return execution.mark(c.toCase(metrics.toArray(Metric[]::new)));
    }

    /** Returns the name of a case's traces, such as {@code naive} or {@code bucketed-25mb-compiled-step}. */
    static String label(Case c) {
        String buckets = c.text("bucket_mb");
        StepExecution execution = StepExecution.of(c);
        return c.text("mode")
                + (buckets.equals("0") ? "" : "-" + buckets + "mb")
                + (execution == StepExecution.EAGER ? "" : "-" + execution);
    }

    @Override
    public StoredResult run(ProcessGroup group, TracedPlan plan) throws IOException {
        TrainingPlan training = plan.training();
        MeasurementStore store = MeasurementStore.of(training.storage(), group.device(), group.size());
        List<Case> missing = store.lacking(group, training.cases());
        StepTraces traces = StepTraces.open(group, plan);
        if (!missing.isEmpty() || !traces.missing().isEmpty()) {
            RankCase any = RankCase.of(training.cases().get(0));
            Torch.allowTf32(any.precision().tf32());
            Torch.seed(group.rank());
            try (var scope = MemoryScope.open();
                    var model = new DdpTraining(any, group)) {
                time(group, training, missing, model, store);
                MeasurementStore.measureEach(group, "traces", traces.missing(), i -> {
                    Case c = traces.missing().get(i);
                    try (var wrapped = model.wrap(c)) {
                        traces.record(c, () -> model.synchronizedStep(wrapped));
                    }
                });
            }
        }
        return new StoredResult(store.path().toString(), missing.size());
    }

    private static void time(
            ProcessGroup group, TrainingPlan plan, List<Case> cases, DdpTraining training, MeasurementStore store)
            throws IOException {
        List<SampleCollector> collected =
                cases.stream().map(c -> new SampleCollector()).toList();
        store.measureRounds(group, plan.rounds(), cases, (i, isLast) -> {
            SampleCollector samples = collected.get(i);
            try (var wrapped = training.wrap(cases.get(i))) {
                for (double[] step : training.times(wrapped, plan)) {
                    add(samples, group.max(step), wrapped.isCompiled());
                }
                samples.set(MESSAGES, List.of((double) wrapped.collectivesPerStep()));
                samples.set(GRADIENTS, List.of((double) training.gradientBytes()));
            }
            store.putWithSteps(group, cases.get(i), samples, isLast);
        });
    }

    /** Adds a step's values: its phases, unless it is compiled, and its total. */
    private static void add(SampleCollector samples, double[] step, boolean isCompiled) {
        List<String> phases = DdpTraining.PHASES;
        double sum = 0;
        samples.add(TOTAL, step[phases.size()]);
        if (isCompiled) {
            return;
        }
        for (int k = 0; k < phases.size(); k++) {
            samples.add(Metric.ms(phases.get(k)), step[k]);
            sum += step[k];
        }
        samples.add(COMMUNICATION_PERCENTAGE, 100 * step[phases.indexOf("communication")] / sum);
    }

    /** The execution of a rank's data-parallel training steps. */
    enum StepExecution {
        /** Operator by operator. */
        EAGER,
        /** As a compiled step; the host starts the collectives between its CUDA graphs. */
        COMPILED_STEP,
        /** As a compiled step whose CUDA graph contains the collectives. */
        COMPILED_STEP_IN_GRAPH;

        /**
         * Returns the execution of this name.
         *
         * @throws IllegalArgumentException if there is none
         */
        static StepExecution parse(String name) {
            return ArgumentCheck.oneOf("--execution", name, List.of(values()));
        }

        /** Returns the execution of a case that {@link #mark} has returned. */
        static StepExecution of(Case c) {
            return Arrays.stream(values())
                    .filter(execution ->
                            execution != EAGER && c.implementation().endsWith("+" + execution))
                    .findFirst()
                    .orElse(EAGER);
        }

        /** Returns the case with this execution in the name of its implementation. */
        Case mark(Case c) {
            return this == EAGER ? c : c.withImplementation(c.implementation() + "+" + this);
        }

        /** Returns the name on the command line and in stored measurements. */
        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }
}
