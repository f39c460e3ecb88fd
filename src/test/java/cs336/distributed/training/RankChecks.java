package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** Tests of checks that run on several ranks in one launch. */
final class RankChecks {
    private RankChecks() {}

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
