package cs336.bench;

import java.util.function.Consumer;

/**
 * The code that measures cases in a child process of a {@link Sweep}. Cases that share a process also share the
 * workload object. Implementations have a public constructor without arguments.
 */
@FunctionalInterface
public interface Workload {
    /**
     * Measures one case.
     *
     * @param c the case with its parameters and settings
     * @param record receives the samples of each metric as soon as they are complete, so that they are kept if a later
     *     metric runs out of memory
     * @throws UnsupportedOperationException if the implementation does not support these parameters
     */
    void run(Case c, Consumer<Samples> record) throws Exception;
}
