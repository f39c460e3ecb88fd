package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.profile.Intervals.TimeInterval;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

class IntervalsTest {
    private static final int MAX_TIME = 120;

    private static Intervals of(long... bounds) {
        var intervals = new ArrayList<TimeInterval>();
        for (int i = 0; i < bounds.length; i += 2) {
            intervals.add(new TimeInterval(bounds[i], bounds[i + 1]));
        }
        Collections.reverse(intervals); // the order does not matter
        return Intervals.of(intervals);
    }

    @Test
    void touchingIntervalsAreMerged() {
        Intervals merged = of(0, 10, 10, 20, 15, 18, 30, 31);
        assertEquals(List.of(new TimeInterval(0, 20), new TimeInterval(30, 31)), merged.intervals());
        assertEquals(21, merged.total());
    }

    @Test
    void touchingIntervalsDoNotOverlap() {
        assertEquals(Intervals.NONE, of(0, 10).and(of(10, 20)));
        assertEquals(of(9, 10), of(0, 10).and(of(9, 20)));
    }

    @Test
    void anEventWithoutDurationIsEmpty() {
        assertEquals(Intervals.NONE, of(5, 5));
        assertEquals(of(0, 10), of(0, 10, 5, 5).minus(of(7, 7)));
    }

    @Test
    void timesBeyondTheRangeOfAnIntAreExact() {
        long start = 1_790_857_026_000_000_000L;
        Intervals a = of(start, start + 3);
        assertEquals(1, a.and(of(start + 2, Long.MAX_VALUE)).total());
        assertEquals(2, a.minus(of(start + 2, Long.MAX_VALUE)).total());
    }

    @Test
    void setOperationsAgreeWithBitSets() {
        long seed = new Random().nextLong();
        var random = new Random(seed);
        for (int round = 0; round < 500; round++) {
            var a = new BitSet();
            var b = new BitSet();
            Intervals x = random(random, a);
            Intervals y = random(random, b);
            String which = "seed " + seed + ", round " + round + ": " + x + " " + y;
            assertEquals(a, bits(x), which);
            assertEquals(a.cardinality(), x.total(), which);
            assertEquals(bits(a, b, BitSet::and), bits(x.and(y)), which);
            assertEquals(bits(a, b, BitSet::or), bits(x.or(y)), which);
            assertEquals(bits(a, b, BitSet::andNot), bits(x.minus(y)), which);
            for (Intervals set : List.of(x.and(y), x.or(y), x.minus(y))) {
                for (int i = 1; i < set.intervals().size(); i++) {
                    assertTrue(
                            set.intervals().get(i - 1).end()
                                    < set.intervals().get(i).start(),
                            which + " meet in " + set);
                }
            }
        }
    }

    private static Intervals random(Random random, BitSet bits) {
        var intervals = new ArrayList<TimeInterval>();
        for (int i = random.nextInt(12); i > 0; i--) {
            int start = random.nextInt(MAX_TIME);
            int end = start + random.nextInt(12);
            intervals.add(new TimeInterval(start, end));
            bits.set(start, end);
        }
        return Intervals.of(intervals);
    }

    private static BitSet bits(Intervals intervals) {
        var bits = new BitSet();
        intervals.intervals().forEach(interval -> bits.set((int) interval.start(), (int) interval.end()));
        return bits;
    }

    private static BitSet bits(BitSet a, BitSet b, BiConsumer<BitSet, BitSet> operation) {
        BitSet result = (BitSet) a.clone();
        operation.accept(result, b);
        return result;
    }

    @Test
    void anEndBeforeTheStartIsRejected() {
        var error = assertThrows(IllegalArgumentException.class, () -> new TimeInterval(2, 1));
        assertEquals("start 2 must not be after end 1", error.getMessage());
    }
}
