package cs336.distributed.collectives;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a rank has handed to collectives.
 *
 * @param byOperation {@code all-reduce}, {@code broadcast}, {@code all-gather}, {@code reduce-scatter}, …
 */
public record Traffic(Map<String, Volume> byOperation) {
    public Traffic {
        byOperation = Collections.unmodifiableMap(new TreeMap<>(byOperation));
    }

    /**
     * Collectives of one kind.
     *
     * @param calls how many
     * @param bytes of the whole tensors, as they are when put together: of a gather what comes out, of a reduce-scatter
     *     what goes in
     */
    public record Volume(long calls, long bytes) {
        private Volume plus(long moreCalls, long moreBytes) {
            return new Volume(calls + moreCalls, bytes + moreBytes);
        }
    }

    /** Counts calls as they come; in a step there are hundreds. */
    public static final class Meter {
        private final Map<String, long[]> counts = new HashMap<>();

        public void count(CollectiveCall call, int ranks) {
            long bytes = call.dtype().bytes();
            for (long size : call.shape()) bytes *= size;
            long[] volume = counts.computeIfAbsent(call.operation(), operation -> new long[2]);
            volume[0]++;
            volume[1] += isPart(call.operation()) ? bytes * ranks : bytes;
        }

        /** Whether a call names the part of one rank, and not the whole tensor. */
        private static boolean isPart(String operation) {
            return operation.contains("gather") || operation.startsWith("reduce-scatter");
        }

        public Traffic traffic() {
            var sums = new TreeMap<String, Volume>();
            counts.forEach((operation, volume) -> sums.merge(
                    operation.replaceFirst(" \\(.*", ""), // the reduction, or the root
                    new Volume(volume[0], volume[1]),
                    (a, b) -> a.plus(b.calls, b.bytes)));
            return new Traffic(sums);
        }
    }

    /** What came since then. */
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

    /** Collectives of one kind; none is zero. */
    public Volume of(String operation) {
        return byOperation.getOrDefault(operation, new Volume(0, 0));
    }

    /**
     * The least that a rank has to send for all of them, on average over the ranks: of S bytes (n − 1)/n · S for a
     * broadcast, an all-gather or a reduce-scatter, twice that for an all-reduce, which is both of the latter, and the
     * nth part of it for a gather, of which each but the root sends its own. Rings send exactly this (Patarasuk and
     * Yuan, 2009); what a library does send is another matter.
     *
     * @param ranks n
     */
    public double leastSent(int ranks) {
        double sent = 0;
        for (var entry : byOperation.entrySet()) {
            double times = switch (entry.getKey()) {
                case "all-reduce" -> 2;
                case "gather of values" -> 1.0 / ranks;
                default -> 1;
            };
            sent += times * entry.getValue().bytes() * (ranks - 1) / ranks;
        }
        return sent;
    }
}
