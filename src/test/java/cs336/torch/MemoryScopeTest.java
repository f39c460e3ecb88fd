package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class MemoryScopeTest {
    private static final int MIB = 1 << 20;

    @Test
    void closingFreesObjectsCreatedInside() {
        Tensor created;
        try (var scope = MemoryScope.open()) {
            created = torch.ones(3);
            assertFalse(created.isNull());
        }
        assertTrue(created.isNull());
    }

    @Test
    void escapedTensorLivesUntilTheEnclosingScopeCloses() {
        Tensor escaped;
        try (var outer = MemoryScope.open()) {
            try (var inner = MemoryScope.open()) {
                escaped = inner.escape(torch.ones(3));
            }
            assertEquals(3.0f, escaped.sum().item_float());
        }
        assertTrue(escaped.isNull());
    }

    @Test
    void escapedTensorWithoutAnEnclosingScopeStays() {
        Tensor escaped;
        try (var scope = MemoryScope.open()) {
            escaped = scope.escape(torch.ones(3));
        }
        assertEquals(3.0f, escaped.sum().item_float());
    }

    @Test
    void keptTensorOutlivesAllScopes() {
        Tensor kept;
        try (var outer = MemoryScope.open()) {
            try (var inner = MemoryScope.open()) {
                kept = MemoryScope.keep(torch.ones(3));
            }
        }
        assertEquals(3.0f, kept.sum().item_float());
    }

    /** An escape without an enclosing scope keeps the tensor, too; closing it once must free it. */
    @Test
    void aTensorThatIsKeptTwiceIsFreedByOneClose() {
        Tensor kept;
        try (var scope = MemoryScope.open()) {
            kept = scope.escape(torch.ones(3));
        }
        MemoryScope.keep(kept);
        kept.close();
        assertTrue(kept.isNull());
    }

    static final class StepsWithEscapes implements MemoryGrowth.Work {
        @Override
        public void step() {
            try (var outer = MemoryScope.open()) {
                Tensor grown;
                try (var inner = MemoryScope.open()) {
                    grown = inner.escape(torch.ones(MIB / 4)); // 1 MiB
                }
                grown.add(grown);
            }
        }
    }

    @Test
    void thousandStepsWithEscapesLeaveMemoryFlat() throws Exception {
        MemoryGrowth.assertFlat(StepsWithEscapes.class, 100, 150);
    }
}
