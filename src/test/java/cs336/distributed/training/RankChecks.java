package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import cs336.torch.MemoryScope;
import java.io.Serializable;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** Tests of checks that run on several ranks in one launch. */
final class RankChecks {
    private RankChecks() {}

    /** A check on one rank. */
    interface RankCheck {
        void run() throws Exception;
    }

    /**
     * Runs a check on this rank, and waits until it has ended on all ranks.
     *
     * @param wrong receives the failure under the name of the check, or an empty text
     * @throws IllegalStateException if the group cannot be used afterwards
     */
    static void run(String name, RankCheck check, ProcessGroup group, Map<String, String> wrong) {
        wrong.put(name, "");
        try (var scope = MemoryScope.open()) {
            check.run();
        } catch (Exception | AssertionError e) {
            String at = Arrays.stream(e.getStackTrace())
                    .filter(frame -> frame.getClassName().startsWith("cs336"))
                    .limit(4)
                    .toList()
                    .toString();
            wrong.put(name, "rank " + group.rank() + ": " + e + " at " + at + "\n");
            if (group.failure() != null) {
                throw new IllegalStateException(name + ": " + e, e);
            }
        }
        group.barrier();
    }

    /**
     * Runs checks with one thread per rank, and returns a test for each check.
     *
     * @param checks on each rank returns a map from the name of each check to its failure, or to an empty text
     * @param seed for the message of a failed test
     */
    static <A extends Serializable> Stream<DynamicTest> on(
            Launcher launcher,
            Class<? extends RankProgram<A, LinkedHashMap<String, String>>> checks,
            A input,
            long seed)
            throws InterruptedException {
        List<LinkedHashMap<String, String>> ranks = launcher.threads(1).run(checks, input);
        return List.copyOf(ranks.get(0).keySet()).stream()
                .map(name -> dynamicTest(name, () -> {
                    String wrong = String.join(
                            "", ranks.stream().map(rank -> rank.get(name)).toList());
                    assertEquals("", wrong, "seed " + seed);
                }));
    }
}
