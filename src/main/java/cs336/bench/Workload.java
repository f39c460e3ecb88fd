package cs336.bench;

import java.util.function.Consumer;

/**
 * What a case runs, in a process of its own, or in one that several cases of the same workload share: one object then
 * runs them all, one after the other. Implementations have a public constructor without arguments.
 */
@FunctionalInterface
public interface Workload {
    /**
     * Measures one case.
     *
     * @param c its parameters and settings
     * @param record takes each metric's samples as soon as they are complete: what was recorded before the memory ran
     *     out is kept
     * @throws UnsupportedOperationException where the implementation does not offer these parameters
     */
    void run(Case c, Consumer<Samples> record) throws Exception;
}
