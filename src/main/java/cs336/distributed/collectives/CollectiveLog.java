package cs336.distributed.collectives;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;

/**
 * The collectives that this rank has called, compared with those of the other ranks.
 *
 * <p>No backend checks that ranks call the same collectives. Different sizes or one call too many end in a hang or in
 * wrong results. Three comparisons turn that into an error:
 *
 * <ul>
 *   <li>The first time that a call follows a certain other call, all ranks compare it through the rendezvous store. A
 *       training loop does so in its first two iterations only, so later steps cost nothing. A missing call, an
 *       additional call or a different order usually creates a new pair of successive calls, which is compared again.
 *       It does not if equal calls follow each other, such as all-reduces of gradients of one shape. The other two
 *       comparisons then find the difference. Ranks for which a pair is not new answer through {@link CallAnswers}
 *       within a few seconds.
 *   <li>Each rank keeps a fingerprint of all its calls. Ranks compare the fingerprints in a barrier, when they gather
 *       objects, and when they leave the group.
 *   <li>After a failure ranks compare their last {@value #KEPT_CALLS} calls.
 * </ul>
 */
final class CollectiveLog {
    private static final int KEPT_CALLS = 256;
    private static final int REPORTED_CALLS = 20;
    private static final int MOST_NAMED_RANKS = 8;

    /** Time that ranks that failed at about the same time wait for each other's calls. */
    private static final Duration COMPARISON_TIMEOUT = Duration.ofSeconds(1);

    /** Time that a rank waits for the calls of other ranks before it asks for them. */
    private static final Duration ASK_AFTER = Duration.ofSeconds(1);

    private final Rendezvous rendezvous;
    private final int rank; // in the world, like all ranks in this class
    private final List<Integer> others;
    private final String among; // the ranks of a subgroup, as in " of ranks [0, 2]"; empty for all ranks
    private final RecentCalls recent;
    private final Map<CollectiveCall, Set<CollectiveCall>> successors = new HashMap<>();
    private Set<CollectiveCall> seenSuccessors = new HashSet<>(); // of the previous call
    private final Deque<CollectiveCall> lastCalls = new ArrayDeque<>();
    private volatile long count;
    private long fingerprint;
    private volatile String comparing;
    private String difference;
    private boolean diverged;

    /**
     * Creates a log without calls.
     *
     * @param recent the last calls of this rank in all groups
     */
    CollectiveLog(Rendezvous rendezvous, RecentCalls recent) {
        this.rendezvous = rendezvous;
        this.recent = recent;
        rank = rendezvous.world().rank();
        others = rendezvous.members().stream().filter(other -> other != rank).toList();
        among = rendezvous.isOfSubgroup() ? " of ranks " + text(rendezvous.members()) : "";
    }

    /** Returns a list of ranks as text, shortened if it is long. */
    private static String text(List<Integer> ranks) {
        return ranks.size() <= MOST_NAMED_RANKS
                ? ranks.toString()
                : "[%d, %d, …, %d]".formatted(ranks.get(0), ranks.get(1), ranks.get(ranks.size() - 1));
    }

    /** The last calls of a rank in all groups, in the order of the calls. */
    static final class RecentCalls {
        private final Deque<NumberedCall> last = new ArrayDeque<>();
        private long count;

        private synchronized void add(NumberedCall call) {
            count++;
            last.add(call);
            if (last.size() > REPORTED_CALLS) {
                last.remove();
            }
        }

        /** Returns the number of all calls. */
        synchronized long count() {
            return count;
        }

        /** Returns the last {@value #REPORTED_CALLS} calls with their numbers. */
        synchronized List<String> last() {
            return last.stream().map(NumberedCall::toString).toList();
        }
    }

    private record NumberedCall(long number, String among, CollectiveCall call) {
        @Override
        public String toString() {
            return number + among + ": " + call;
        }
    }

    /**
     * Records a call. If it follows the previous call for the first time, waits until all ranks have called the same
     * collective.
     *
     * @return the number of the call, from 1
     * @throws CollectiveFailure if another rank calls another collective, or none within the timeout
     */
    synchronized long record(CollectiveCall call) {
        synchronized (lastCalls) {
            count++;
            lastCalls.add(call);
            if (count > KEPT_CALLS) {
                lastCalls.remove();
            }
        }
        fingerprint = fingerprint * 1_000_003 + call.fingerprint();
        recent.add(new NumberedCall(count, among, call));
        boolean isNew = seenSuccessors.add(call);
        seenSuccessors = successors.computeIfAbsent(call, c -> new HashSet<>());
        if (isNew && !others.isEmpty()) {
            comparing = name(count, call);
            compare(call);
            comparing = null;
        }
        return count;
    }

    /** Returns a call with its number, for messages. */
    String name(long number, CollectiveCall call) {
        return numbered(number) + ", " + call;
    }

    private String numbered(long number) {
        return "collective " + number + among;
    }

    /** Returns a hash of all calls; equal on ranks that made the same calls in the same order. */
    synchronized long fingerprint() {
        return fingerprint;
    }

    /** Returns the key of the text of a call that ranks compare. */
    static String first(long number) {
        return "first/" + number;
    }

    /**
     * Returns the call with this number as text; null if this rank has not made it yet, or does not keep it. Does not
     * wait for a comparison.
     */
    String earlier(long number) {
        synchronized (lastCalls) {
            long dropped = count - lastCalls.size();
            return number <= dropped
                    ? null
                    : lastCalls.stream()
                            .skip(number - dropped - 1)
                            .findFirst()
                            .map(CollectiveCall::toString)
                            .orElse(null);
        }
    }

    /** Returns the number of calls. */
    long count() {
        return count;
    }

    /** Returns the last calls of this rank in all groups. */
    RecentCalls recent() {
        return recent;
    }

    /** Returns the call that is being compared with the other ranks, or null. */
    String comparing() {
        return comparing;
    }

    private void compare(CollectiveCall call) {
        String key = first(count);
        rendezvous.post(key, call.toString());
        long end = rendezvous.deadline();
        long askAt = System.nanoTime() + ASK_AFTER.toNanos();
        boolean asked = false;
        for (int other : others) {
            String theirs = rendezvous.readUntil(key, other, asked ? end : askAt);
            if (theirs == null && !asked) {
                CallAnswers.ask(rendezvous, count);
                asked = true;
                theirs = rendezvous.readUntil(key, other, end);
            }
            if (theirs == null) {
                throw new CollectiveFailure("rank " + other + " did not call " + name(count, call) + " on rank " + rank
                        + ", within " + Rendezvous.text(rendezvous.timeout()) + difference());
            }
            if (!theirs.equals(call.toString())) {
                String different =
                        numbered(count) + " is " + call + " on rank " + rank + ", but " + theirs + " on rank " + other;
                throw new CollectiveFailure(different, null, true);
            }
        }
    }

    /**
     * Returns the first call that differs between ranks, to be appended to an error message. Empty if the calls are the
     * same or no other rank responds. Ranks must call this at about the same time.
     */
    synchronized String difference() {
        if (difference == null) {
            difference = others.isEmpty() ? "" : compareLastCalls();
        }
        return difference;
    }

    /** Returns whether {@link #difference} has found a call that is different on another rank. */
    synchronized boolean hasDiverged() {
        return diverged;
    }

    private String compareLastCalls() {
        try {
            rendezvous.post("calls", describeLastCalls());
            long end = System.nanoTime() + COMPARISON_TIMEOUT.toNanos();
            for (int other : others) {
                String theirs = rendezvous.readUntil("calls", other, end);
                String difference = theirs == null ? "" : difference(other, theirs);
                if (!difference.isEmpty()) {
                    return "; " + difference;
                }
            }
        } catch (RuntimeException e) {
            // Rank 0, which hosts the store, has exited; the first failure is all that can be reported.
        }
        return "";
    }

    private String describeLastCalls() {
        var lines = new StringJoiner("\n");
        lines.add(String.valueOf(count));
        lastCalls.forEach(call -> lines.add(call.toString()));
        return lines.toString();
    }

    private String difference(int other, String theirCalls) {
        String[] lines = theirCalls.split("\n");
        long theirCount = Long.parseLong(lines[0]);
        Map<Long, String> theirs = new LinkedHashMap<>();
        for (int i = 1; i < lines.length; i++) {
            theirs.put(theirCount - (lines.length - 1) + i, lines[i]);
        }
        long number = count - lastCalls.size();
        for (CollectiveCall call : lastCalls) {
            String theirCall = theirs.get(++number);
            if (theirCall != null && !theirCall.equals(call.toString())) {
                diverged = true;
                return numbered(number) + " is " + call + " on rank " + rank + ", but " + theirCall + " on rank "
                        + other;
            }
        }
        if (theirCount == count) {
            return "";
        }
        return "rank " + rank + " has called " + count + " collectives" + among + ", rank " + other + " " + theirCount;
    }
}
