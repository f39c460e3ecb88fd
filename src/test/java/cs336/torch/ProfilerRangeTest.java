package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProfilerRangeTest {
    /** Records the ranges of this thread; other threads may open ranges at the same time. */
    private static final class RangeRecorder implements RangeListener {
        private final Thread here = Thread.currentThread();
        private final List<String> lines = new ArrayList<>();

        @Override
        public void entered(String name) {
            if (Thread.currentThread() == here) {
                lines.add("+" + name);
            }
        }

        @Override
        public void left(String name) {
            if (Thread.currentThread() == here) {
                lines.add("-" + name);
            }
        }
    }

    @Test
    void rangesNestAndEndInReverseOrder() {
        var recorder = new RangeRecorder();
        ProfilerRange.addListener(recorder);
        try (var outer = ProfilerRange.of("outer")) {
            try (var inner = ProfilerRange.of("inner")) {
                inner.close(); // closing twice has no effect
            }
            ProfilerRange.of("next").close();
        } finally {
            ProfilerRange.removeListener(recorder);
        }
        assertEquals(List.of("+outer", "+inner", "-inner", "+next", "-next", "-outer"), recorder.lines);
    }

    @Test
    void aListenerReceivesNoEndWithoutABegin() {
        var first = new RangeRecorder();
        var second = new RangeRecorder();
        ProfilerRange.addListener(first);
        try (var outer = ProfilerRange.of("outer")) {
            ProfilerRange.addListener(second);
            try (var inner = ProfilerRange.of("inner")) {
                ProfilerRange.removeListener(first);
            }
        } finally {
            ProfilerRange.removeListener(first);
            ProfilerRange.removeListener(second);
        }
        assertEquals(List.of("+outer", "+inner", "-inner", "-outer"), first.lines);
        assertEquals(List.of("+inner", "-inner"), second.lines);
    }

    @Test
    void withoutListenersAllRangesAreOneObject() {
        assertSame(ProfilerRange.of("a"), ProfilerRange.of("b"));
    }

    @Test
    void rangesAreReportedToNvtxIfItsLibraryIsInstalled() {
        try (var nvtx = Nvtx.open();
                var range = ProfilerRange.of("shown")) {
            assertEquals(Nvtx.NvtxLibrary.FOUND.isPresent(), ProfilerRange.hasListeners());
        }
        assertFalse(ProfilerRange.hasListeners());
    }

    @Test
    void rangesAreNotReportedInAProcessThatNoToolStarted() {
        try (var nvtx = Nvtx.openIfTraced()) {
            assertEquals(
                    System.getenv("NVTX_INJECTION64_PATH") != null && Nvtx.NvtxLibrary.FOUND.isPresent(),
                    ProfilerRange.hasListeners());
        }
    }
}
