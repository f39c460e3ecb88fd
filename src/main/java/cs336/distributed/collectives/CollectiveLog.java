package cs336.distributed.collectives;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;

/**
 * What this rank has called so far, and whether the others have called the same. No backend checks that: other sizes or
 * one call too many end in a hang, or in sums of what does not belong together.
 *
 * <p>Agreement costs a training step nothing: ranks compare a call through the store where it follows another one for
 * the first time. A loop has done so with all of its calls in its second round, and one call more or less, or another
 * order, makes one follow another that it did not follow before. Each rank also keeps a fingerprint of all its calls,
 * which goes along where ranks wait for each other anyway: in a barrier, with gathered objects, at the end. And once
 * something has failed, they compare what they remember.
 */
final class CollectiveLog {
    private static final int REMEMBERED = 256;

    /** Enough for ranks that failed at the same moment to find each other's calls. */
    private static final Duration PATIENCE = Duration.ofSeconds(1);

    private final Rendezvous meeting;
    private final int rank;
    private final int size;
    private final Map<CollectiveCall, Set<CollectiveCall>> followers = new HashMap<>();
    private Set<CollectiveCall> mayFollow = new HashSet<>(); // the call before
    private final Deque<CollectiveCall> last = new ArrayDeque<>();
    private volatile long count;
    private long fingerprint;
    private volatile String agreeing;
    private String difference;

    CollectiveLog(Rendezvous meeting) {
        this.meeting = meeting;
        rank = meeting.world().rank();
        size = meeting.world().size();
    }

    /**
     * Notes a call. One that follows another for the first time waits until all ranks have come to theirs.
     *
     * @return its number, from 1
     * @throws CollectiveFailure if another rank calls something else, or nothing within the timeout
     */
    synchronized long next(CollectiveCall call) {
        count++;
        fingerprint = fingerprint * 1_000_003 + call.fingerprint();
        last.add(call);
        if (last.size() > REMEMBERED) last.remove();
        boolean isNew = mayFollow.add(call);
        mayFollow = followers.computeIfAbsent(call, c -> new HashSet<>());
        if (isNew && size > 1) {
            agreeing = "collective " + count + ", " + call;
            agree(call);
            agreeing = null;
        }
        return count;
    }

    /** Equal on ranks that have made the same calls in the same order. */
    synchronized long fingerprint() {
        return fingerprint;
    }

    /** How many calls there were. */
    long count() {
        return count;
    }

    /** The call that waits for the others to come to theirs, or null. */
    String agreeing() {
        return agreeing;
    }

    private void agree(CollectiveCall call) {
        meeting.post("first/" + count, call.toString());
        for (int other = 0; other < size; other++) {
            if (other == rank) continue;
            String theirs = meeting.read("first/" + count, other, meeting.timeout());
            if (theirs == null) {
                throw new CollectiveFailure("rank " + other + " did not come to collective " + count + ", " + call
                        + " on rank " + rank + ", within " + Rendezvous.text(meeting.timeout()) + difference());
            }
            if (!theirs.equals(call.toString())) {
                throw new CollectiveFailure("collective " + count + " is " + call + " on rank " + rank + ", but "
                        + theirs + " on rank " + other);
            }
        }
    }

    /**
     * Where ranks parted, to be added to a message: empty where they did not, or where none of the others can be asked.
     * RankProcesses must ask at about the same time.
     */
    synchronized String difference() {
        if (difference == null) difference = size > 1 ? compare() : "";
        return difference;
    }

    private String compare() {
        try {
            meeting.post("calls", remembered());
            long end = System.nanoTime() + PATIENCE.toNanos();
            for (int other = 0; other < size; other++) {
                if (other == rank) continue;
                String theirs = meeting.read("calls", other, Duration.ofNanos(Math.max(1, end - System.nanoTime())));
                String difference = theirs == null ? "" : difference(other, theirs);
                if (!difference.isEmpty()) return "; " + difference;
            }
        } catch (RuntimeException e) {
            // The store is at rank 0, which has gone: the first failure has to do as a message.
        }
        return "";
    }

    private String remembered() {
        var lines = new StringJoiner("\n");
        lines.add(String.valueOf(count));
        last.forEach(call -> lines.add(call.toString()));
        return lines.toString();
    }

    private String difference(int other, String remembered) {
        String[] lines = remembered.split("\n");
        long theirCount = Long.parseLong(lines[0]);
        Map<Long, String> theirs = new LinkedHashMap<>();
        for (int i = 1; i < lines.length; i++) theirs.put(theirCount - (lines.length - 1) + i, lines[i]);
        long number = count - last.size();
        for (CollectiveCall call : last) {
            String their = theirs.get(++number);
            if (their != null && !their.equals(call.toString())) {
                return "collective " + number + " is " + call + " on rank " + rank + ", but " + their + " on rank "
                        + other;
            }
        }
        if (theirCount == count) return "";
        return "rank " + rank + " has called " + count + " collectives, rank " + other + " " + theirCount;
    }
}
