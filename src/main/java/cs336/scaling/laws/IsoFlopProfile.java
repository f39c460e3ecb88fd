package cs336.scaling.laws;

import java.util.Comparator;
import java.util.List;

/**
 * The runs of one compute budget, from small models on many tokens to large models on few. The loss has a minimum in
 * between.
 *
 * @param compute the budget in FLOP
 * @param runs the training runs in order of model size, with at least three different sizes
 */
public record IsoFlopProfile(double compute, List<TrainingRun> runs) {
    private static final Comparator<TrainingRun> BY_SIZE = Comparator.comparingLong(TrainingRun::parameters);

    /** @throws IllegalArgumentException for fewer than three sizes, because a minimum needs a neighbour on each side */
    public IsoFlopProfile {
        runs = runs.stream().sorted(BY_SIZE).toList();
        long sizes = runs.stream().mapToLong(TrainingRun::parameters).distinct().count();
        if (sizes < 3) {
            throw new IllegalArgumentException("compute_budget %s must have runs of at least 3 sizes, not %d"
                    .formatted(IsoFlops.flop(compute), sizes));
        }
    }

    /** Returns the run with the lowest loss; if there are several, that of the smallest model. */
    public TrainingRun lowest() {
        return runs.stream().min(Comparator.comparingDouble(TrainingRun::loss)).orElseThrow();
    }

    /**
     * Returns whether the runs include smaller and larger models than this. If not, the minimum may be outside the
     * sizes of the runs.
     */
    public boolean brackets(double parameters) {
        return runs.get(0).parameters() < parameters
                && parameters < runs.get(runs.size() - 1).parameters();
    }

    /** Returns the least-squares parabola of the losses over ln N. */
    public Parabola parabola() {
        return Parabola.through(
                runs.stream().mapToDouble(run -> Math.log(run.parameters())).toArray(),
                runs.stream().mapToDouble(TrainingRun::loss).toArray());
    }

    /**
     * Returns the runs that are tied with the lowest, given the noise: their ln(loss) is higher by at most twice the
     * standard deviation of the difference between two runs.
     *
     * @param deviation standard deviation of ln(loss) of a run
     */
    public List<TrainingRun> contenders(double deviation) {
        double most = lowest().loss() * Math.exp(2 * Math.sqrt(2) * deviation);
        return runs.stream().filter(run -> run.loss() <= most).toList();
    }
}
