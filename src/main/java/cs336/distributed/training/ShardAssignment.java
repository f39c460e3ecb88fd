package cs336.distributed.training;

import cs336.bench.ArgumentCheck;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * An assignment of whole parameters to ranks that balances bytes: largest parameter first, each to the rank with the
 * fewest bytes, and to the lowest of several such ranks (Graham, 1969). If all parameters are added at once, the rank
 * with the most bytes has at most 4/3 − 1/(3n) times the maximum of the optimal assignment to n ranks. All ranks
 * compute the same assignment without communication.
 */
public final class ShardAssignment {
    private final long[] bytes;
    private final Map<String, Integer> owners = new LinkedHashMap<>();

    /**
     * Creates an empty assignment.
     *
     * @param ranks number of ranks
     * @throws IllegalArgumentException if it is below 1
     */
    public ShardAssignment(int ranks) {
        bytes = new long[ArgumentCheck.atLeast("ranks", 1, ranks)];
    }

    /** Returns an independent copy. */
    ShardAssignment copy() {
        var copy = new ShardAssignment(bytes.length);
        System.arraycopy(bytes, 0, copy.bytes, 0, bytes.length);
        copy.owners.putAll(owners);
        return copy;
    }

    /**
     * Assigns more parameters; earlier assignments do not change.
     *
     * @param sizes bytes by parameter name
     */
    public void add(Map<String, Long> sizes) {
        List<Map.Entry<String, Long>> largestFirst = new ArrayList<>(sizes.entrySet());
        largestFirst.sort(Map.Entry.comparingByValue(Comparator.reverseOrder())); // stable for equal sizes
        Map<String, Integer> found = new LinkedHashMap<>();
        for (var parameter : largestFirst) {
            int least = 0;
            for (int rank = 1; rank < bytes.length; rank++) {
                least = bytes[rank] < bytes[least] ? rank : least;
            }
            bytes[least] += parameter.getValue();
            found.put(parameter.getKey(), least);
        }
        sizes.keySet().forEach(name -> owners.put(name, found.get(name)));
    }

    /** Returns the rank of each parameter by name, in the order in which they were added. */
    public Map<String, Integer> owners() {
        return Collections.unmodifiableMap(owners);
    }

    /** Returns the bytes of each rank. */
    public long[] bytes() {
        return bytes.clone();
    }

    /** Returns the maximum over the mean of bytes: 1 is best, the number of ranks is worst. */
    public static double imbalance(long... bytes) {
        Objects.requireNonNull(bytes, "bytes must not be null");
        long most = Arrays.stream(bytes).max().orElse(0);
        double mean = Arrays.stream(bytes).average().orElse(0);
        return mean == 0 ? 1 : most / mean;
    }
}
