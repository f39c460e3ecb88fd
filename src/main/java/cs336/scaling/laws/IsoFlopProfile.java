package cs336.scaling.laws;

import java.util.Comparator;
import java.util.List;

/**
 * The runs of one compute budget: small models on many tokens to large models on few. Their losses fall to a minimum
 * and rise again.
 *
 * @param compute the budget, in FLOP
 * @param runs by size, the smallest model first; at least three sizes
 */
public record IsoFlopProfile(double compute, List<TrainingRun> runs) {
    private static final Comparator<TrainingRun> BY_SIZE = Comparator.comparingLong(TrainingRun::parameters);

    /**
     * @throws IllegalArgumentException for fewer than three sizes, among which no minimum has a neighbour on either
     *     side
     */
    public IsoFlopProfile {
        runs = runs.stream().sorted(BY_SIZE).toList();
        long sizes = runs.stream().mapToLong(TrainingRun::parameters).distinct().count();
        if (sizes < 3) {
            throw new IllegalArgumentException("compute_budget %s must have runs of at least 3 sizes, not %d"
                    .formatted(IsoFlops.flop(compute), sizes));
        }
    }

    /** The run with the lowest loss; of several the smallest model. */
    public TrainingRun lowest() {
        return runs.stream().min(Comparator.comparingDouble(TrainingRun::loss)).orElseThrow();
    }

    /** Whether smaller and larger models were tried than that of the lowest run; if not, the minimum may lie beyond. */
    public boolean brackets(double parameters) {
        return runs.get(0).parameters() < parameters
                && parameters < runs.get(runs.size() - 1).parameters();
    }

    /** The parabola nearest to the losses over the logarithm of the size. */
    public Parabola parabola() {
        return Parabola.through(
                runs.stream().mapToDouble(run -> Math.log(run.parameters())).toArray(),
                runs.stream().mapToDouble(TrainingRun::loss).toArray());
    }

    /**
     * The runs that noise does not let tell from the lowest: their loss is above its by less than twice the standard
     * deviation of the difference of two runs.
     *
     * @param deviation standard deviation of ln(loss) of a run
     */
    public List<TrainingRun> contenders(double deviation) {
        double most = lowest().loss() * Math.exp(2 * Math.sqrt(2) * deviation);
        return runs.stream().filter(run -> run.loss() <= most).toList();
    }
}
