package cs336.distributed.training;

import cs336.bench.ArgumentCheck;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Which rank owns which parameter, so that ranks own about as many bytes each: the largest goes first, each to the rank
 * that has least, and of several such ranks to the first. By this rule (Graham's, 1969) the fullest rank of parameters
 * added at once has at most 4/3 − 1/(3n) of what it has in the best assignment to n ranks. All ranks come to the same
 * result without talking.
 */
public final class ShardAssignment {
    private final long[] bytes;
    private final Map<String, Integer> owners = new LinkedHashMap<>();

    /**
     * An assignment of nothing yet.
     *
     * @param ranks how many there are
     * @throws IllegalArgumentException if there is none
     */
    public ShardAssignment(int ranks) {
        bytes = new long[ArgumentCheck.atLeast("ranks", 1, ranks)];
    }

    /** The same so far; what is added to one of the two is not in the other. */
    ShardAssignment copy() {
        var copy = new ShardAssignment(bytes.length);
        System.arraycopy(bytes, 0, copy.bytes, 0, bytes.length);
        copy.owners.putAll(owners);
        return copy;
    }

    /**
     * Assigns more parameters; those that have owners keep them.
     *
     * @param sizes bytes by name
     */
    public void add(Map<String, Long> sizes) {
        List<Map.Entry<String, Long>> largestFirst = new ArrayList<>(sizes.entrySet());
        largestFirst.sort(
                Map.Entry.comparingByValue(Comparator.reverseOrder())); // stable: equal ones as they were given
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

    /** The rank of each parameter, in the order in which they were given. */
    public Map<String, Integer> owners() {
        return Collections.unmodifiableMap(owners);
    }

    /** Bytes of each rank. */
    public long[] bytes() {
        return bytes.clone();
    }

    /** Bytes of the fullest rank over the mean of all; 1 is best, and the number of ranks is worst. */
    public static double imbalance(long... bytes) {
        long most = Arrays.stream(bytes).max().orElse(0);
        double mean = Arrays.stream(bytes).average().orElse(0);
        return mean == 0 ? 1 : most / mean;
    }
}
