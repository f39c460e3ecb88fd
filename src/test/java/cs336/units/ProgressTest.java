package cs336.units;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ProgressTest {
    private final PrintStream out = System.out;
    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();

    private void capture(boolean watched) {
        Progress.inNotebook(watched);
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
    }

    @AfterEach
    void restore() {
        System.setOut(out);
        Progress.inNotebook(false);
    }

    private String printed() {
        return printed.toString(StandardCharsets.UTF_8);
    }

    @Test
    void loopSeesAllElementsInOrder() {
        capture(false);
        List<Integer> seen = new ArrayList<>();
        for (int i : Progress.of(4, "steps")) {
            seen.add(i);
        }
        for (int i : Progress.of(List.of(7, 5), "more")) {
            seen.add(i);
        }
        assertEquals(List.of(0, 1, 2, 3, 7, 5), seen);
    }

    @Test
    void loopOverAllNumbersOccupiesNoMemoryForThem() {
        capture(false);
        for (int i : Progress.of(Integer.MAX_VALUE, "steps")) {
            if (i == 3) {
                break;
            }
        }
        assertEquals("", printed());
    }

    @Test
    void onlyTheNumberOfStepsIsPrintedIfNobodyWatches() {
        capture(false);
        for (int i : Progress.of(3, "steps")) {
            assertEquals("", printed(), "at step " + i);
        }
        assertEquals("steps: 3 of 3" + System.lineSeparator(), printed());
    }

    @Test
    void oneLineIsRewrittenForAUser() {
        capture(true);
        var clock = new AtomicLong();
        Iterator<Integer> steps =
                new Progress("training", 4, clock::get).over(List.of(0, 1, 2, 3).iterator());
        while (steps.hasNext()) {
            steps.next();
            clock.addAndGet(TimeUnit.SECONDS.toNanos(40));
        }
        List<String> lines =
                Arrays.stream(printed().split("\r")).map(String::stripTrailing).toList();
        assertEquals(
                List.of(
                        "",
                        "training: 1 of 4 · 0:40 elapsed, about 2:00 left",
                        "training: 2 of 4 · 1:20 elapsed, about 1:20 left",
                        "training: 3 of 4 · 2:00 elapsed, about 0:40 left",
                        "training: 4 of 4 · 2:40"),
                lines);
        assertTrue(printed().endsWith(System.lineSeparator()));
    }

    @Test
    void quickStepsAreNotPrintedEach() {
        capture(true);
        Iterator<Integer> steps =
                new Progress("quick", 1000, () -> 0).over(Progress.of(0, "none").iterator());
        while (steps.hasNext()) {
            steps.next();
        }
        int before = printed().length();
        Iterator<Integer> many =
                new Progress("quick", -1, () -> 0).over(List.of(1, 2, 3).iterator());
        while (many.hasNext()) {
            many.next();
        }
        assertEquals("\rquick: 3 · 0:00" + System.lineSeparator(), printed().substring(before));
    }

    @Test
    void timesHaveHoursIfThereAreAny() {
        assertEquals("0:05", Progress.time(Duration.ofMillis(5400)));
        assertEquals("59:59", Progress.time(Duration.ofSeconds(3599)));
        assertEquals("2:00:07", Progress.time(Duration.ofSeconds(7207)));
    }

    @Test
    void negativeCountIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Progress.of(-1, "steps"));
    }
}
