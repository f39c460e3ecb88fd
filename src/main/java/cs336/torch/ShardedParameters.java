package cs336.torch;

import java.lang.ref.WeakReference;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;

/**
 * The registry of sharded parameters. A container, such as fully sharded data parallelism, holds their values and
 * gradients in place of the module. Optimizers, checkpoints, gradient clipping and methods of their module reject them,
 * because they are empty between passes. This includes parameters that the container replicates: it holds their
 * gradients.
 */
public final class ShardedParameters {
    private static final Set<Tensor> DECLARED =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    /** The checks of {@link #requireReduced}, by the addresses of the shards. */
    private static final Map<Long, WeakReference<Runnable>> CHECKS = new ConcurrentHashMap<>();

    private ShardedParameters() {}

    /**
     * Declares that a container holds a parameter.
     *
     * @param parameter the object that the module has, not another handle of the tensor
     * @throws IllegalArgumentException if it is null, closed or undefined
     */
    public static void declare(Tensor parameter) {
        Tensors.requireDefined("parameter", parameter); // closed tensors equal each other
        DECLARED.add(parameter);
    }

    /**
     * Checks that no container holds a parameter.
     *
     * @param name its name in the error message
     * @throws IllegalArgumentException if one does
     */
    public static void requireUnsharded(String name, Tensor parameter) {
        if (DECLARED.contains(parameter)) {
            throw new IllegalArgumentException(
                    name
                            + " belongs to a container that shards the module; use the parameters and methods of the container");
        }
    }

    /**
     * Declares a tensor whose gradient a container computes for an optimizer.
     *
     * @param shard the tensor that the optimizer updates
     * @param requireReduced throws an exception if the container has gradients that it has not reduced yet; the
     *     container keeps a reference
     * @throws IllegalArgumentException if an argument is null, or the tensor is closed or undefined
     */
    public static void declareShard(Tensor shard, Runnable requireReduced) {
        if (requireReduced == null) {
            throw new IllegalArgumentException("requireReduced must not be null");
        }
        CHECKS.put(address(shard), new WeakReference<>(requireReduced));
    }

    /**
     * Removes the declaration of {@link #declareShard}.
     *
     * @throws IllegalArgumentException if the tensor is null, closed or undefined
     */
    public static void removeShard(Tensor shard) {
        CHECKS.remove(address(shard));
    }

    /**
     * Checks that the gradients of an optimizer's parameters are complete.
     *
     * @throws IllegalArgumentException if a parameter is null, closed or undefined, and there are containers
     * @throws IllegalStateException if a container has not reduced them yet
     */
    public static void requireReduced(Collection<Tensor> parameters) {
        if (CHECKS.isEmpty()) {
            return;
        }
        Set<Runnable> checks = new HashSet<>();
        try (var scope = MemoryScope.open()) {
            for (Tensor parameter : parameters) {
                WeakReference<Runnable> check = CHECKS.get(address(parameter));
                if (check != null && check.get() != null) {
                    checks.add(check.get());
                }
            }
            checks.forEach(Runnable::run);
        }
    }

    /** Returns the address of a tensor, which all handles of it have in common. */
    private static long address(Tensor shard) {
        Tensors.requireDefined("shard", shard);
        return shard.unsafeGetTensorImpl().address();
    }
}
