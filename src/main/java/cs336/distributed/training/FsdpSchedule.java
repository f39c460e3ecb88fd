package cs336.distributed.training;

import cs336.distributed.training.UseSequence.Use;
import java.util.List;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * The points in a step of {@link FullyShardedDataParallel} at which this rank gathers and frees the parameters of each
 * unit and reduces its gradients. The order of units is recorded in each pass; from the second step on it predicts
 * which units to prefetch.
 */
final class FsdpSchedule {
    private final List<FsdpUnit> units;
    private final int maxGathered;
    private final UseSequence forwardUses = new UseSequence();
    private final UseSequence backwardUses = new UseSequence();

    private boolean isBackward; // whether the last use was in a backward pass
    private FsdpUnit reduceScattered; // the unit whose reduce-scatter is in progress; null if there is none
    private boolean synchronizing = true;
    private boolean forwardRecords = true; // whether the last forward pass began with gradients enabled
    private boolean isCatchingUp;
    private int peakUnits;
    private long peakBytes;

    /**
     * Creates the schedule of units that are not in use.
     *
     * @param maxGathered as {@link FsdpSettings#maxGatheredUnits}
     */
    FsdpSchedule(List<FsdpUnit> units, int maxGathered) {
        this.units = units;
        this.maxGathered = maxGathered;
    }

    /** Returns the largest number of units whose parameters were gathered at once. */
    int peakUnits() {
        return peakUnits;
    }

    /** Returns the largest number of bytes of gathered parameters, with padding. */
    long peakBytes() {
        return peakBytes;
    }

    /** Returns whether gradients are reduced during and after the backward pass. */
    boolean isSynchronizing() {
        return synchronizing;
    }

    /** Ends the backward passes of all units. Later ones reduce their gradients ({@code on}) or keep them whole. */
    void setSynchronizing(boolean on) {
        endAllBackward();
        synchronizing = on;
    }

    /** Returns whether no gradient of a finished backward pass awaits its reduction. */
    boolean isReduced() {
        return units.stream().noneMatch(unit -> unit.inBackward || unit.awaitsReduction() || unit == reduceScattered);
    }

    /** Returns whether gradients of a backward pass must be reduced, or are being reduced. */
    boolean hasPendingGradients() {
        return units.stream().anyMatch(FsdpUnit::hasPendingGradients);
    }

    /** Waits for the reductions in progress, and discards their results. */
    void discardReductions() {
        reduceScattered = null;
        units.forEach(FsdpUnit::discardReduced);
    }

    /** Begins a forward pass of the module. After an exception in the previous one, units may still be in use. */
    void beginForward() {
        endAllBackward();
        units.stream().filter(unit -> unit.forwards > 0).forEach(FsdpSchedule::endFailedForward);
        forwardUses.begin();
        isBackward = false;
        forwardRecords = GradMode.is_enabled();
    }

    private static void endFailedForward(FsdpUnit unit) {
        unit.forwards = 0;
        unit.free();
    }

    /** Gathers a unit for the forward pass of one of its modules. */
    void beforeForward(FsdpUnit unit) {
        use(unit, false, BackwardHook.isInBackwardPass());
        unit.forwards++;
    }

    /** Frees the unit that has computed this output, unless it is needed next. */
    void afterForward(FsdpUnit unit, Tensor output) {
        if (output.requires_grad()) {
            unit.hook.register(output);
        }
        unit.forwards--;
        release(unit, output.requires_grad());
    }

    /** Gathers a unit for its backward pass, which has reached an output of the unit. */
    void beforeBackward(FsdpUnit unit) {
        unit.beginBackward();
        use(unit, true, true);
        unit.inBackward = true;
    }

    /** Gathers a unit that is needed now, and starts to gather those that are expected next. */
    private void use(FsdpUnit unit, boolean backward, boolean inBackwardPass) {
        if (inBackwardPass != isBackward) {
            (inBackwardPass ? backwardUses : forwardUses).begin();
            isBackward = inBackwardPass;
        }
        if (inBackwardPass) {
            // A unit without shards may be recomputed within the backward pass of another one, as a normalization is.
            boolean follows = unit.hasShards();
            for (FsdpUnit other : units) {
                if (follows && other != unit && other.inBackward && !other.contains(unit)) {
                    endBackward(other);
                }
                if (other != unit && other.unreduced && !other.inBackward) {
                    reduceIfComplete(other);
                }
            }
        }
        UseSequence uses = inBackwardPass ? backwardUses : forwardUses;
        var use = new Use(unit, backward);
        uses.add(use);
        if (use.needsParameters()) {
            if (!unit.isGathered() && unit.hasShards()) {
                evictUnused();
            }
            startGather(unit);
        }
        for (Use next : uses.expected()) {
            if (gatheredUnits() >= maxGathered) {
                break;
            }
            if (next.needsParameters()) {
                startGather(next.unit());
            }
        }
        if (use.needsParameters()) {
            unit.awaitGather();
        }
    }

    private void startGather(FsdpUnit unit) {
        unit.startGather();
        peakUnits = Math.max(peakUnits, gatheredUnits());
        peakBytes = Math.max(
                peakBytes,
                units.stream()
                        .filter(FsdpUnit::isGathered)
                        .mapToLong(FsdpUnit::gatheredBytes)
                        .sum());
    }

    private int gatheredUnits() {
        return (int) units.stream().filter(FsdpUnit::isGathered).count();
    }

    /** Frees units that were gathered after a wrong prediction, as many as necessary to gather another one. */
    private void evictUnused() {
        for (FsdpUnit unit : units) {
            if (gatheredUnits() < maxGathered) {
                return;
            }
            if (unit.isGathered() && !unit.isInUse()) {
                unit.free();
            }
        }
    }

    /** Frees a unit after a forward pass, unless it is in use or needed next. */
    private void release(FsdpUnit unit, boolean backwardFollows) {
        if (unit.isInUse()) {
            return;
        }
        List<Use> expected = (isBackward ? backwardUses : forwardUses).expected();
        if (expected.isEmpty() && !isBackward && backwardFollows) {
            expected = backwardUses.expectedFirst();
        }
        if (expected.isEmpty() || expected.get(0).unit() != unit) {
            unit.free();
        }
    }

    /** Ends the backward pass of a unit: frees its weights. */
    private void endBackward(FsdpUnit unit) {
        unit.takeGradients();
        unit.inBackward = false;
        unit.unreduced = unit.isTrainable();
        if (unit.forwards == 0) {
            unit.free();
        }
    }

    /**
     * Starts to reduce the gradients of a unit whose backward pass has ended, unless more are expected: from another
     * backward pass of the unit, as with tied weights, or all of them when the recomputation of several units ends.
     */
    private void reduceIfComplete(FsdpUnit unit) {
        unit.takeGradients();
        boolean usedAgain = backwardUses.expected().stream().anyMatch(use -> use.unit() == unit && use.backward());
        if (synchronizing && !usedAgain && (unit.hasArrived() || isCatchingUp)) {
            reduce(unit);
        }
    }

    private void endAllBackward() {
        units.stream().filter(unit -> unit.inBackward).forEach(this::endBackward);
    }

    /**
     * Starts to reduce the gradients of a unit, after the previous reduce-scatter has ended, so that the whole
     * gradients of only one unit are in memory. All-reduces of shards among replicas continue until the end of the
     * step.
     */
    private void reduce(FsdpUnit unit) {
        endReduceScatter();
        unit.unreduced = false;
        unit.startReduceScatter();
        reduceScattered = unit;
    }

    private void endReduceScatter() {
        if (reduceScattered != null) {
            FsdpUnit unit = reduceScattered;
            reduceScattered = null;
            unit.endReduceScatter();
        }
    }

    /** Ends all backward passes, starts the remaining reduce-scatters and waits for the last one. */
    void endStep() {
        catchUp();
        endAllBackward();
        for (FsdpUnit unit : units) {
            unit.takeGradients();
            if (unit.unreduced) {
                reduce(unit);
            } else {
                unit.requireNoGradient();
            }
        }
        units.forEach(FsdpUnit::free);
        endReduceScatter();
        forwardUses.begin();
        backwardUses.begin();
        isBackward = false;
    }

    /** Runs the collectives of passes that this rank has not completed, but other ranks may have. */
    private void catchUp() {
        for (FsdpUnit unit : units) {
            if (unit.forwards > 0) {
                unit.forwards = 0;
                release(unit, true);
            }
        }
        if (!isBackward) {
            if (!forwardRecords && forwardUses.expected().isEmpty()) {
                forwardUses.begin(); // the last forward pass was an evaluation, so this step has none yet
            }
            for (Use use : List.copyOf(forwardUses.expected())) {
                use(use.unit(), false, false);
                release(use.unit(), true);
            }
            backwardUses.begin();
            isBackward = true;
        }
        isCatchingUp = true;
        try {
            for (Use use : List.copyOf(backwardUses.expected())) {
                use(use.unit(), use.backward(), true);
                use.unit().inBackward |= use.backward();
                release(use.unit(), true);
            }
        } finally {
            isCatchingUp = false;
        }
    }
}
