package cs336.torch;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
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
}
