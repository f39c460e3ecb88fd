package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RangeTest {
    /** Writes down what it hears on this thread; others may open ranges at the same time. */
    private static final class Diary implements Range.Listener {
        private final Thread here = Thread.currentThread();
        private final List<String> lines = new ArrayList<>();

        @Override
        public void entered(String name) {
            if (Thread.currentThread() == here) lines.add("+" + name);
        }

        @Override
        public void left(String name) {
            if (Thread.currentThread() == here) lines.add("-" + name);
        }
    }

    @Test
    void rangesNestAndEndInReverseOrder() {
        Diary diary = new Diary();
        Range.listen(diary);
        try (var outer = Range.of("outer")) {
            try (var inner = Range.of("inner")) {
                inner.close(); // twice does not matter
            }
            Range.of("next").close();
        } finally {
            Range.unlisten(diary);
        }
        assertEquals(List.of("+outer", "+inner", "-inner", "+next", "-next", "-outer"), diary.lines);
    }

    @Test
    void whoComesInTheMiddleHearsNoEndWithoutABeginning() {
        Diary first = new Diary();
        Diary second = new Diary();
        Range.listen(first);
        try (var outer = Range.of("outer")) {
            Range.listen(second);
            try (var inner = Range.of("inner")) {
                Range.unlisten(first);
            }
        } finally {
            Range.unlisten(first);
            Range.unlisten(second);
        }
        assertEquals(List.of("+outer", "+inner", "-inner", "-outer"), first.lines);
        assertEquals(List.of("+inner", "-inner"), second.lines);
    }

    @Test
    void whileNobodyListensThereIsOneRangeForAll() {
        assertSame(Range.of("a"), Range.of("b"));
    }

    @Test
    void rangesAreShownToNvidiasToolsWhereTheirLibraryIsThere() {
        try (var nvtx = Nvtx.open();
                var range = Range.of("shown")) {
            assertEquals(Nvtx.isAvailable(), Range.isHeard());
        }
        assertFalse(Range.isHeard());
    }

    @Test
    void aProcessThatNoToolStartedShowsThemToNobody() {
        try (var nvtx = Nvtx.openIfTraced()) {
            assertEquals(System.getenv("NVTX_INJECTION64_PATH") != null && Nvtx.isAvailable(), Range.isHeard());
        }
    }
}
