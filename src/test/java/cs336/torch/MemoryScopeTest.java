package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
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
    void severalTensorsEscapeTogetherExceptMissingOnes() {
        Tensor[] escaped;
        try (var outer = MemoryScope.open()) {
            Tensor other;
            try (var inner = MemoryScope.open()) {
                other = torch.ones(3);
                escaped = inner.escapeAll(new Tensor[] {torch.ones(3), null, torch.ones(3)});
            }
            assertTrue(other.isNull());
            assertEquals(6.0f, escaped[0].add(escaped[2]).sum().item_float());
        }
        assertTrue(escaped[0].isNull() && escaped[2].isNull());
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
    void tensorsOfAnOuterScopeStayThere() {
        Tensor escaped;
        Tensor kept;
        try (var outer = MemoryScope.open()) {
            escaped = torch.ones(3);
            kept = torch.ones(3);
            try (var middle = MemoryScope.open()) {
                try (var inner = MemoryScope.open()) {
                    inner.escape(escaped);
                    MemoryScope.keep(kept);
                }
            }
            assertEquals(3.0f, escaped.sum().item_float());
        }
        assertTrue(escaped.isNull());
        assertEquals(3.0f, kept.sum().item_float());
        kept.close();
        assertTrue(kept.isNull());
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

    @Test
    void aScopeCannotBeClosedOnAnotherThread() throws InterruptedException {
        try (var outer = MemoryScope.open()) {
            var scope = MemoryScope.open();
            Tensor inside = torch.ones(3);
            assertRefusedElsewhere("a memory scope must be closed on the thread that opened it", scope);
            assertFalse(inside.isNull());
            scope.close();
            assertTrue(inside.isNull());
            Tensor next = torch.ones(3);
            assertEquals(3.0f, next.sum().item_float(), "belongs to the outer scope");
        }
    }

    @Test
    void aModeCannotBeClosedOnAnotherThread() throws InterruptedException {
        try (var noGrad = NoGrad.open()) {
            assertRefusedElsewhere("a NoGrad scope must be closed on the thread that opened it", noGrad);
            assertFalse(GradMode.is_enabled());
        }
        assertTrue(GradMode.is_enabled());
        try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
            assertRefusedElsewhere("an Autocast scope must be closed on the thread that opened it", autocast);
        }
    }

    @Test
    void modesCannotBeClosedInTheWrongOrder() {
        var outer = NoGrad.open();
        var inner = NoGrad.open();
        var e = assertThrows(IllegalStateException.class, outer::close);
        assertTrue(e.getMessage().startsWith("a NoGrad scope must be closed before the scopes around it"));
        inner.close();
        assertFalse(GradMode.is_enabled());
        outer.close();
        assertTrue(GradMode.is_enabled());
        inner.close(); // does nothing
        assertTrue(GradMode.is_enabled());

        var bf16 = Autocast.of(Device.cpu(), DType.BFLOAT16);
        var full = Autocast.of(Device.cpu(), DType.FLOAT32);
        assertThrows(IllegalStateException.class, bf16::close);
        full.close();
        bf16.close();
        assertFalse(torch.is_autocast_enabled(DeviceType.CPU));
    }

    private static void assertRefusedElsewhere(String message, AutoCloseable scope) throws InterruptedException {
        var thrown = new AtomicReference<Exception>();
        var thread = new Thread(() -> {
            try {
                scope.close();
            } catch (Exception e) {
                thrown.set(e);
            }
        });
        thread.start();
        thread.join();
        assertInstanceOf(IllegalStateException.class, thrown.get());
        assertTrue(thrown.get().getMessage().startsWith(message), thrown.get().getMessage());
    }
}
