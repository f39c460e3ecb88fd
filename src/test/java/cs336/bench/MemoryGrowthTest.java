package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.javacpp.Pointer;
import org.junit.jupiter.api.Test;

class MemoryGrowthTest {
    private static final int STEPS =
            5000; // a block leaks 1.5 MB; what the JVM itself allocates must be less than a sixth

    /** Leaks 300 bytes of the C heap in each step. */
    static final class NativeLeak implements MemoryGrowth.Work {
        @Override
        public void step() {
            Pointer.malloc(300);
        }
    }

    /** Leaks 300 bytes of the Java heap in each step. */
    static final class JavaLeak implements MemoryGrowth.Work {
        private final List<byte[]> kept = new ArrayList<>(50_000);

        @Override
        public void step() {
            kept.add(new byte[300]);
        }
    }

    @Test
    void aLeakOf300BytesPerStepIsFound() {
        for (var leak : List.of(NativeLeak.class, JavaLeak.class)) {
            var error = assertThrows(AssertionError.class, () -> MemoryGrowth.assertFlat(leak, STEPS, 150));
            String[] words = error.getMessage().split(" ");
            assertEquals(300, Double.parseDouble(words[3]), 30, error.getMessage()); // other memory may be freed
        }
    }

    @Test
    void oneTimeChangesAreNotGrowthAndDoNotHideGrowth() {
        assertEquals(0, MemoryGrowth.typicalGrowth(5, 5, 5, 90, 90, 90, 90, 90));
        assertEquals(0, MemoryGrowth.slope(5, 5, 5, 5, 5, 5, 5, 90));
        assertEquals(1, MemoryGrowth.typicalGrowth(95, 96, 97, 98, 9, 10, 11, 12));
        assertEquals(2, MemoryGrowth.slope(0, 2, 4, 6, 8, 10));
    }
}
