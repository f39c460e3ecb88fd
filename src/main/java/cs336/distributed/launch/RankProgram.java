package cs336.distributed.launch;

import cs336.distributed.collectives.ProcessGroup;
import java.io.Serializable;

/**
 * A program that runs on every rank: a public class on the class path with a public no-argument constructor. The
 * command {@code launch} adds folders and JAR files with {@code --class-path}, and passes its arguments as a
 * {@code String[]}. A class from a notebook cell is not on the class path. Argument and values consist of the objects
 * that {@link cs336.distributed.collectives.Serialization} can send: records, enums, collections, arrays, strings,
 * numbers.
 *
 * @param <A> type of the argument, which is the same on all ranks
 * @param <R> type of the value that each rank returns; null is allowed
 */
@FunctionalInterface
public interface RankProgram<A extends Serializable, R extends Serializable> {
    /**
     * Runs on the main thread of one rank. An exception ends all ranks.
     *
     * @param group the group of all ranks; the launcher closes it
     */
    R run(ProcessGroup group, A argument) throws Exception;
}
