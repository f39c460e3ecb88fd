package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.profile.Activity;
import cs336.profile.Profile;
import cs336.profile.Profiler;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The traces of data-parallel training steps, {@code <mode>-rank<n>.json.gz}, and the file
 * {@code <problem>_overlap.csv} with the {@link StepOverlap} of each recorded step.
 */
final class DdpTraces {
    private static final int STEPS = 3;

    private final ProcessGroup group;
    private final Path folder;
    private final MeasurementStore store;
    private final List<Case> missing;

    private DdpTraces(ProcessGroup group, Path folder, MeasurementStore store, List<Case> missing) {
        this.group = group;
        this.folder = folder;
        this.store = store;
        this.missing = missing;
    }

    /** Opens the stored overlaps. All ranks call it. */
    static DdpTraces open(ProcessGroup group, DdpPlan plan) throws IOException {
        TrainingPlan training = plan.training();
        MeasurementFile file = training.storage().withSuffix("_overlap");
        MeasurementStore store = MeasurementStore.of(file, group.device(), group.size());
        List<Case> requested = training.cases().stream()
                .filter(plan::traces)
                .map(c ->
                        new Case(c.workload(), c.implementation(), c.parameters(), c.settings(), StepOverlap.metrics()))
                .toList();
        if (requested.isEmpty()) {
            return new DdpTraces(group, null, store, List.of());
        }
        return new DdpTraces(group, Path.of(plan.traceFolder()), store, store.lacking(group, requested));
    }

    /** Returns whether all requested overlaps are stored already. */
    boolean areComplete() {
        return missing.isEmpty();
    }

    /** Records the missing cases on all ranks and stores their overlaps on rank 0. */
    void record(DdpTraining training) throws IOException {
        for (Case c : missing) {
            List<ArrayList<StepOverlap>> ranks;
            try (var ddp = training.wrap(RankCase.of(c))) {
                ranks = group.allGather(record(training, ddp, DdpBenchmark.label(c)));
            }
            if (group.rank() != 0) {
                continue;
            }
            store.put(c, StepOverlap.samples(ranks));
            System.out.printf("traces of %s are in %s%n", DdpBenchmark.label(c), folder);
        }
    }

    private ArrayList<StepOverlap> record(DdpTraining training, DistributedDataParallel ddp, String label)
            throws IOException {
        Files.createDirectories(folder);
        training.synchronizedStep(ddp); // the first step determines the order of the all-reduces
        group.barrier();
        Profile profile;
        try (var profiler = Profiler.start()) {
            for (int i = 0; i < STEPS; i++) {
                if (i > 0) {
                    profiler.step();
                }
                training.synchronizedStep(ddp);
            }
            profile = profiler.stop();
        }
        profile.write(folder.resolve(label + "-rank" + group.rank() + ".json.gz"));
        var steps = new ArrayList<StepOverlap>();
        for (int i = 0; i < STEPS; i++) {
            steps.add(StepOverlap.of(Activity.of(profile.trace().step(i)).get(0)));
        }
        return steps;
    }
}
