package cs336.compile;

import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A section of the program of a training step, and the gradients that are complete after it.
 *
 * @param end number of operations of the program up to the end of the section
 * @param parameters indices of the parameters whose gradients the section completes
 */
record GradientStage(int end, List<Integer> parameters) {
    /**
     * Divides a program into stages that end where all gradients of a bucket are complete. The last one ends with the
     * program.
     *
     * @param operations number of operations of the program
     * @param completions for each parameter, the number of operations after which its gradient is complete, or −1 if it
     *     has none
     * @param buckets disjoint sets of parameters; without any there is one stage
     */
    static List<GradientStage> of(int operations, int[] completions, List<List<Integer>> buckets) {
        var ends = new TreeSet<Integer>();
        for (List<Integer> bucket : buckets) {
            bucket.stream()
                    .mapToInt(p -> completions[p])
                    .filter(end -> end > 0)
                    .max()
                    .ifPresent(ends::add);
        }
        ends.pollLast(); // what follows the last bucket belongs to its stage
        ends.add(operations);
        Map<Integer, List<Integer>> completed = IntStream.range(0, completions.length)
                .boxed()
                .filter(p -> completions[p] >= 0)
                .collect(Collectors.groupingBy(p -> ends.ceiling(completions[p])));
        return ends.stream()
                .map(end -> new GradientStage(end, completed.getOrDefault(end, List.of())))
                .toList();
    }
}
