package cs336.distributed.training;

import cs336.basics.NnModule;
import cs336.basics.TransformerBlock;
import cs336.bench.ArgumentCheck;
import cs336.torch.DType;
import java.util.Arrays;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;

/**
 * The settings of {@link FullyShardedDataParallel}.
 *
 * @param computeDtype dtype of gathered parameters, of activations and of gradients in the backward pass; null for that
 *     of each parameter
 * @param reduceDtype dtype in which gradients are reduced; null for the compute dtype
 * @param maxGatheredUnits the number of units whose gathered parameters may be in memory at once: with 1 each unit
 *     waits for its all-gather, with 2 the next unit is gathered while one computes. Nested units are in use at the
 *     same time and may exceed this number.
 * @param isUnit tells whether a module is a unit, like an auto-wrap policy of PyTorch: the parameters of the module and
 *     of its descendants are gathered together and freed together. Every other layer with parameters of its own is also
 *     a unit
 * @param shardedModules names of modules, such as {@code layers.0.attn}, whose parameters are all sharded, in addition
 *     to those of every {@code Linear} and {@code Embedding}
 * @param replicas number of groups that each hold the whole model, sharded among the group's consecutive ranks. With 1
 *     the model is sharded among all ranks; with the number of nodes, within each node (HSDP).
 */
public record FsdpSettings(
        DType computeDtype,
        DType reduceDtype,
        int maxGatheredUnits,
        Predicate<NnModule> isUnit,
        Set<String> shardedModules,
        int replicas) {
    /**
     * @throws IllegalArgumentException if a dtype is not floating-point, or {@code maxGatheredUnits} or
     *     {@code replicas} is below 1
     */
    public FsdpSettings {
        Objects.requireNonNull(shardedModules, "shardedModules must not be null");
        requireFloatingPoint("computeDtype", computeDtype);
        requireFloatingPoint("reduceDtype", reduceDtype);
        ArgumentCheck.atLeast("maxGatheredUnits", 1, maxGatheredUnits);
        ArgumentCheck.atLeast("replicas", 1, replicas);
        shardedModules = Set.copyOf(shardedModules);
    }

    private static void requireFloatingPoint(String name, DType dtype) {
        if (dtype != null && !dtype.isFloatingPoint()) {
            throw new IllegalArgumentException(name + " must be a floating-point dtype, not " + dtype);
        }
    }

    /**
     * Returns the defaults: dtypes of the parameters, two gathered units, one unit per Transformer block, one replica.
     */
    public static FsdpSettings standard() {
        return new FsdpSettings(null, null, 2, TransformerBlock.class::isInstance, Set.of(), 1);
    }

    /** Returns these settings with another compute dtype. */
    public FsdpSettings withComputeDtype(DType dtype) {
        return new FsdpSettings(dtype, reduceDtype, maxGatheredUnits, isUnit, shardedModules, replicas);
    }

    /** Returns these settings with another reduce dtype. */
    public FsdpSettings withReduceDtype(DType dtype) {
        return new FsdpSettings(computeDtype, dtype, maxGatheredUnits, isUnit, shardedModules, replicas);
    }

    /** Returns these settings with another number of gathered units. */
    public FsdpSettings withMaxGatheredUnits(int units) {
        return new FsdpSettings(computeDtype, reduceDtype, units, isUnit, shardedModules, replicas);
    }

    /** Returns these settings with other units. */
    public FsdpSettings withUnits(Predicate<NnModule> modules) {
        return new FsdpSettings(computeDtype, reduceDtype, maxGatheredUnits, modules, shardedModules, replicas);
    }

    /** Returns these settings with these modules sharded, too. */
    public FsdpSettings withShardedModules(String... names) {
        Objects.requireNonNull(names, "names must not be null");
        Set<String> all = new TreeSet<>(shardedModules);
        all.addAll(Arrays.asList(names));
        return new FsdpSettings(computeDtype, reduceDtype, maxGatheredUnits, isUnit, all, replicas);
    }

    /**
     * Returns these settings with another number of replicas (HSDP).
     *
     * @param count a divisor of the number of ranks, such as {@link cs336.distributed.collectives.World#nodes}
     */
    public FsdpSettings withReplicas(int count) {
        return new FsdpSettings(computeDtype, reduceDtype, maxGatheredUnits, isUnit, shardedModules, count);
    }
}
