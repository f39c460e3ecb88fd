package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.fuse.Access.Digit;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.BiConsumer;
import java.util.function.LongUnaryOperator;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** Compares random accesses with the elements that they read. */
class AccessTest {
    private static final int MOST_DIGITS = 3;
    private static final int[] STRIDES = {0, 0, 1, 1, 2, 3, 4, 6};

    private static long elementOf(Access access, long iteration) {
        long element = access.offset();
        for (Digit digit : access.digits()) {
            element += iteration / digit.place() % digit.size() * digit.stride();
        }
        return element;
    }

    private static List<Long> elements(Access access, long iterations) {
        return elements(iterations, n -> elementOf(access, n));
    }

    private static List<Long> elements(long iterations, LongUnaryOperator element) {
        return LongStream.range(0, iterations).map(element).boxed().toList();
    }

    /** Calls a test with random accesses and the number of their iterations. */
    private static void forRandomAccesses(BiConsumer<Access, Long> test) {
        var random = new Random(7);
        for (int i = 0; i < 4_000; i++) {
            List<Digit> digits = new ArrayList<>();
            long iterations = 1;
            for (int d = 1 + random.nextInt(MOST_DIGITS); d > 0; d--) {
                long size = 2 + random.nextInt(3);
                digits.add(0, new Digit(iterations, size, STRIDES[random.nextInt(STRIDES.length)]));
                iterations *= size;
            }
            test.accept(new Access(digits, random.nextInt(4) == 0 ? 1 : 0), iterations);
        }
    }

    private static List<Long> divisors(long number) {
        return LongStream.rangeClosed(1, number)
                .filter(n -> number % n == 0)
                .boxed()
                .toList();
    }

    @Test
    void anAccessIsOncePerRowIfAllColumnsOfARowReadTheElementOfTheRow() {
        int[] found = new int[2];
        forRandomAccesses((access, n) -> {
            for (long columns : divisors(n)) {
                boolean expected = elements(access, n).equals(elements(n, i -> i / columns));
                assertEquals(expected, access.isOncePerRow(columns), access + ", " + columns + " columns");
                found[expected ? 1 : 0]++;
            }
        });
        assertTrue(found[0] > 500 && found[1] > 500, found[0] + " and " + found[1] + " cases");
    }

    @Test
    void theIdentityReadsEachElementInOrder() {
        forRandomAccesses((access, n) -> {
            assertEquals(elements(access, n).equals(elements(n, i -> i)), access.isIdentity(), access.toString());
            assertEquals(elements(access, n).stream().distinct().count() == 1, access.isScalar(), access.toString());
        });
    }

    @Test
    void splittingAndJoiningKeepTheElements() {
        forRandomAccesses((access, n) -> {
            assertEquals(elements(access, n), elements(access.joined(), n), access.toString());
            assertTrue(access.joined().digits().size() <= access.digits().size());
            for (long columns : divisors(n)) {
                Access split = access.splitAt(columns);
                if (split != null) {
                    assertEquals(elements(access, n), elements(split, n), access + " at " + columns);
                    for (Digit digit : split.digits()) {
                        boolean isWithin = digit.place() * digit.size() <= columns || digit.place() >= columns;
                        assertTrue(isWithin, split + " at " + columns);
                    }
                }
                Access ofRows = access.ofRows(columns);
                assertEquals(elements(n * columns, i -> elementOf(access, i / columns)), elements(ofRows, n * columns));
            }
            assertNotEquals(null, access.joined().splitAt(n));
        });
    }
}
