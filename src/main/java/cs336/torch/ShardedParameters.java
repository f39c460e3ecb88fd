package cs336.torch;

import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.Consumer;
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

    /** The checks of {@link #requireReduced}. */
    private static final Set<Consumer<Collection<Tensor>>> CHECKS =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

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
     * Adds a check to {@link #requireReduced}.
     *
     * @param requireReduced gets the parameters of an optimizer, and throws an exception if a container has gradients
     *     of them that it has not reduced yet; ends with the container, which keeps the only reference
     * @throws IllegalArgumentException if it is null
     */
    public static void addCheck(Consumer<Collection<Tensor>> requireReduced) {
        if (requireReduced == null) {
            throw new IllegalArgumentException("requireReduced must not be null");
        }
        CHECKS.add(requireReduced);
    }

    /**
     * Checks that the gradients of an optimizer's parameters are complete.
     *
     * @throws IllegalStateException if a container has not reduced them yet
     */
    public static void requireReduced(Collection<Tensor> parameters) {
        List<Consumer<Collection<Tensor>>> checks;
        synchronized (CHECKS) {
            checks = List.copyOf(CHECKS);
        }
        checks.forEach(check -> check.accept(parameters));
    }
}
