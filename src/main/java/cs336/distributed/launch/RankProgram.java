package cs336.distributed.launch;

import cs336.distributed.collectives.ProcessGroup;
import java.io.Serializable;

/**
 * What each rank runs. A class on the class path, with a constructor without arguments; both public. Classes written in
 * a notebook's cell are not on it.
 *
 * @param <A> what all ranks are given
 * @param <R> what each gives back; null is allowed
 */
@FunctionalInterface
public interface RankProgram<A extends Serializable, R extends Serializable> {
    /**
     * Runs on one rank, on its main thread. Whatever it throws ends all ranks.
     *
     * @param group all ranks; closed after this returns
     */
    R run(ProcessGroup group, A argument) throws Exception;
}
