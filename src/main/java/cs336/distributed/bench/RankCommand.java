package cs336.distributed.bench;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.StorageOptions;
import cs336.checkpoints.ResumeOptions;
import cs336.checkpoints.TrainingOptions;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Device;
import cs336.units.HostLoad;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.List;

/**
 * Base class of the commands that train a Transformer language model on several ranks, either to measure each mode, or
 * in one mode with checkpoints.
 */
abstract class RankCommand extends LabCommand {
    /** The options of all these commands. Each command declares them, because the help lists them in its order. */
    record CommonOptions(
            RankOptions ranks,
            RoundOptions rounds,
            ResumeOptions checkpoints,
            TrainingOptions training,
            StorageOptions storage) {}

    abstract CommonOptions options();

    /**
     * Checks the options and returns the selected models.
     *
     * @throws IllegalArgumentException if an option is invalid
     */
    abstract List<ModelOptions.Model> checkedModels();

    /** Returns a case for each selected mode. */
    abstract List<Case> cases(ModelOptions.Model model);

    /** Returns the setup of a mode on the ranks that the options select. */
    final RankCase setup(ModelOptions.Model model, Precision precision, String mode, double bucketMb, int lossRows) {
        RankOptions ranks = options().ranks;
        int round = options().rounds.round();
        return new RankCase(
                model, precision, ranks.backend(), ranks.nodes(), ranks.ranks(), mode, bucketMb, round, lossRows);
    }

    /** Returns the fraction of parameters, gradients and AdamW's moments that a rank stores. */
    abstract double stateFraction(RankCase setup);

    /** Returns the measurements of these cases as a table to print. */
    String table(Path file, List<Case> cases) throws IOException {
        return AlignedText.of(ModeTable.of(file, cases));
    }

    /** Returns the launcher that the options select. */
    Launcher launcher() {
        return options().ranks.launcher(options().storage.device());
    }

    private Launcher launcher(List<Case> cases) {
        Launcher launcher = launcher();
        for (Case c : cases) {
            RankCase setup = RankCase.of(c);
            setup.requireTrainable(launcher, stateFraction(setup));
        }
        return launcher;
    }

    /**
     * Trains in one mode, with checkpoints.
     *
     * @param withoutEffect further options of the benchmark
     */
    final int train(String... withoutEffect) throws IOException, InterruptedException {
        CommonOptions o = options();
        CheckpointedTraining.TrainingJob job = checked(() -> {
            requireNotGiven("with --checkpoint", CheckpointedTraining.BENCHMARK_OPTIONS);
            requireNotGiven("with --checkpoint", withoutEffect);
            List<Case> cases = checkedModels().stream()
                    .flatMap(model -> cases(model).stream())
                    .toList();
            return CheckpointedTraining.job(
                    cases, o.rounds.steps(), o.checkpoints.settings(o.ranks.isRestarted()), o.training);
        });
        Launcher launcher = checked(() -> launcher(List.of(job.setup())));
        CheckpointedTraining.train(launcher, job, o.ranks.reports() ? out() : null);
        return 0;
    }

    /** Checks that no option of {@link #train} is given. */
    final void requireNoTrainingOptions() throws IOException {
        checked(() -> {
            requireNotGiven("without --checkpoint", TrainingOptions.names());
            return options().checkpoints.settings(false); // checks that the other options are not given
        });
    }

    /** The argument of a benchmark. */
    @FunctionalInterface
    interface BenchmarkArgument<A> {
        A of(TrainingPlan plan, ModelOptions.Model model, List<ModelOptions.Model> all);
    }

    /**
     * Measures all modes of each model, and prints them.
     *
     * @param traces the folder of {@code --trace}; null without traces
     */
    final <A extends Serializable> int measure(
            Class<? extends RankProgram<A, StoredResult>> benchmark, BenchmarkArgument<A> argument, Path traces)
            throws IOException, InterruptedException {
        CommonOptions o = options();
        List<ModelOptions.Model> models = checked(this::checkedModels);
        checked(() -> {
            if (traces != null) {
                ArgumentCheck.writableFolder("--trace", traces); // before anything is measured
            }
            return null;
        });
        for (ModelOptions.Model model : models) {
            TrainingPlan plan = checked(() -> o.rounds.plan(cases(model), o.storage));
            Launcher launcher = checked(() -> launcher(plan.cases()));
            A task = argument.of(plan, model, models);
            if (o.ranks.reports() && checked(() -> measures(launcher, plan, task))) {
                HostLoad.check();
            }
            StoredResult result =
                    launcher.output(System.err).run(benchmark, task).get(0);
            if (o.ranks.reports()) {
                out().println(table(Path.of(result.file()), plan.cases()));
                out().flush();
            }
        }
        return 0;
    }

    /** Returns whether cases or traces of a plan are not stored yet. */
    private boolean measures(Launcher launcher, TrainingPlan plan, Serializable task) throws IOException {
        var device = new Device(launcher.deviceKind(), 0);
        return isLacking(plan.storage(), device, plan.cases())
                || task instanceof TracedPlan traced
                        && isLacking(StepTraces.file(traced), device, StepTraces.requested(traced));
    }

    private boolean isLacking(MeasurementFile file, Device device, List<Case> cases) throws IOException {
        return !MeasurementStore.of(file, device, options().ranks.ranks())
                .lacking(cases)
                .isEmpty();
    }
}
