package cs336.distributed.collectives;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/**
 * The volume of data that a rank has passed to collectives.
 *
 * @param byOperation volume by {@code all-reduce}, {@code broadcast}, {@code all-gather}, {@code reduce-scatter}, …
 */
public record Traffic(Map<String, Volume> byOperation) {
    public Traffic {
        Objects.requireNonNull(byOperation, "byOperation must not be null");
        byOperation = Collections.unmodifiableMap(new TreeMap<>(byOperation));
    }

    /**
     * The volume of one kind of collective.
     *
     * @param calls number of calls
     * @param bytes total bytes of the whole tensors: the output of an all-gather, the input of a reduce-scatter
     */
    public record Volume(long calls, long bytes) {
        private Volume plus(long moreCalls, long moreBytes) {
            return new Volume(calls + moreCalls, bytes + moreBytes);
        }
    }

    /** A counter of calls and bytes, cheap enough for hundreds of calls per step. */
    public static final class Meter {
        private final Map<String, long[]> counts = new HashMap<>();

        /** Adds one call in a group of {@code ranks} ranks. */
        public void count(CollectiveCall call, int ranks) {
            long bytes = call.dtype().bytes();
            for (long size : call.shape()) {
                bytes *= size;
            }
            long[] volume = counts.computeIfAbsent(call.operation(), operation -> new long[2]);
            volume[0]++;
            volume[1] += isShard(call.operation()) ? bytes * ranks : bytes;
        }

        /** Returns whether the shape of a call is that of one rank's shard, not of the whole tensor. */
        private static boolean isShard(String operation) {
            return operation.contains("gather") || operation.startsWith("reduce-scatter");
        }

        /** Returns the volume counted so far. */
        public Traffic traffic() {
            var sums = new TreeMap<String, Volume>();
            counts.forEach((operation, volume) -> sums.merge(
                    operation.replaceFirst(" \\(.*", ""), // without the reduction or the root
                    new Volume(volume[0], volume[1]),
                    (a, b) -> a.plus(b.calls, b.bytes)));
            return new Traffic(sums);
        }
    }

    /** Returns the volume of the calls since an earlier {@link ProcessGroup#traffic}. */
    public Traffic since(Traffic earlier) {
        var differences = new TreeMap<String, Volume>();
        byOperation.forEach((operation, volume) -> {
            Volume before = earlier.of(operation);
            if (volume.calls > before.calls) {
                differences.put(operation, volume.plus(-before.calls, -before.bytes));
            }
        });
        return new Traffic(differences);
    }

    /** Returns the volume of one kind of collective; zero if there was none. */
    public Volume of(String operation) {
        Objects.requireNonNull(operation, "operation must not be null");
        return byOperation.getOrDefault(operation, new Volume(0, 0));
    }

    /**
     * Returns the minimum bytes that a rank sends for these collectives, averaged over ranks. For a tensor of S bytes
     * on n ranks: (n − 1)/n · S for a broadcast, an all-gather or a reduce-scatter; twice that for an all-reduce, which
     * consists of the latter two; (n − 1)/n² · S for a gather. Ring algorithms reach this bound (Patarasuk and Yuan,
     * 2009); a library may send more. A barrier of this package is an all-reduce.
     *
     * @param ranks n
     */
    public double leastSent(int ranks) {
        double sent = 0;
        for (var entry : byOperation.entrySet()) {
            double times = switch (entry.getKey()) {
                case "all-reduce", "barrier" -> 2;
                case "gather of values" -> 1.0 / ranks;
                default -> 1;
            };
            sent += times * entry.getValue().bytes() * (ranks - 1) / ranks;
        }
        return sent;
    }
}
