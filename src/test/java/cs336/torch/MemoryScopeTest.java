package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

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

    @Test
    void memoryStaysConstantOverAThousandStepsWithEscapes() {
        long before = 0;
        for (int step = 0; step < 1_000; step++) {
            if (step == 300) {
                before = MemoryStats.current(Device.cpu());
            }
            try (var outer = MemoryScope.open()) {
                Tensor grown;
                try (var inner = MemoryScope.open()) {
                    grown = inner.escape(torch.ones(MIB / 4)); // 1 MiB
                }
                grown.add(grown);
            }
        }
        long grownBy = MemoryStats.current(Device.cpu()) - before;
        // A leak of one of the two tensors would add 700 MiB; the Java heap may grow a little.
        assertTrue(grownBy < 100L * MIB, "grew by " + grownBy / MIB + " MiB over 700 steps of 2 MiB each");
    }
}
