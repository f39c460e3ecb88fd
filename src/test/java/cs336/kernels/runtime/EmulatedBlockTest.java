package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.kernels.runtime.EmulatedBlock.EmulatedArray;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Table;

class EmulatedBlockTest {
    private static String refused(EmulatedBlock block, java.util.function.IntConsumer kernel) {
        return assertThrows(IllegalStateException.class, () -> block.run(kernel))
                .getMessage();
    }

    @Test
    void aTreeWithBarriersAddsTheValuesOfAllThreads() {
        double[] values = new Random().doubles(128).toArray();
        var block = new EmulatedBlock(128);
        EmulatedArray x = block.global("x", values);
        EmulatedArray y = block.global("y", 0);
        EmulatedArray shared = block.shared("shared", 128);
        block.run(thread -> {
            shared.set(thread, x.get(thread));
            block.syncThreads();
            for (int s = 64; s > 0; s /= 2) {
                if (thread < s) {
                    shared.set(thread, shared.get(thread) + shared.get(thread + s));
                }
                block.syncThreads();
            }
            if (thread == 0) {
                y.set(0, shared.get(0));
            }
        });
        assertEquals(IntStream.range(0, 128).mapToDouble(i -> values[i]).sum(), y.values()[0], 1e-12);
        Table counts = block.accesses();
        assertEquals(List.of("thread", "reads of x", "writes of y"), counts.columnNames());
        assertEquals(128, counts.intColumn("reads of x").sum());
        assertEquals(1, counts.intColumn("writes of y").getInt(0));
        assertEquals(1, counts.intColumn("writes of y").sum());
    }

    @Test
    void readsShowElementsAndSectorsOfEachStep() {
        var block = new EmulatedBlock(4);
        EmulatedArray x = block.global("x", new double[400]);
        block.run(thread -> {
            for (int h = 0; h < 3 - thread / 3; h++) {
                x.get(thread * 100 + h);
            }
        });
        Table steps = block.reads(x, 10);
        assertEquals(3, steps.rowCount());
        assertArrayEquals(
                new int[] {1, 101, 201, 301},
                IntStream.range(0, 4)
                        .map(t -> steps.intColumn("thread " + t).getInt(1))
                        .toArray());
        assertEquals(4, steps.intColumn("sectors").getInt(0));
        assertEquals(3, steps.intColumn("sectors").getInt(2), "thread 3 reads twice");
        assertEquals(1, block.reads(x, 1).rowCount());
    }

    @Test
    void racesAreRefusedAndBarriersPreventThem() {
        var block = new EmulatedBlock(8);
        EmulatedArray shared = block.shared("shared", 8);
        String lateRead = refused(block, thread -> {
            shared.set(thread, thread);
            shared.get((thread + 7) % 8);
        });
        assertEquals("race: thread 1 reads shared[0], which thread 0 writes without a barrier between them", lateRead);
        assertEquals(
                "race: thread 1 writes shared[1], which thread 0 reads without a barrier between them",
                refused(block, thread -> {
                    shared.get((thread + 1) % 8);
                    shared.set(thread, 1);
                }));
        assertEquals(
                "race: thread 1 writes shared[0], which thread 0 writes without a barrier between them",
                refused(block, thread -> shared.set(0, thread)));
        block.run(thread -> {
            shared.set(thread, thread);
            block.syncThreads();
            double next = shared.get((thread + 1) % 8);
            block.syncThreads();
            shared.set(thread, next);
        });
        assertArrayEquals(new double[] {1, 2, 3, 4, 5, 6, 7, 0}, shared.values());
    }

    @Test
    void aBarrierThatSomeThreadsDoNotReachIsRefused() {
        var block = new EmulatedBlock(8);
        assertEquals(
                "5 of 8 threads end without a barrier at which the others wait: all must reach the same barriers",
                refused(block, thread -> {
                    if (thread < 3) {
                        block.syncThreads();
                    }
                }));
    }

    @Test
    void mistakesNameThreadAndElement() {
        var block = new EmulatedBlock(4);
        EmulatedArray x = block.global("x", 1, 2, 3);
        assertEquals("thread 3 reads x[3], but x has 3 elements", refused(block, x::get));
        assertEquals(
                "x may only be accessed in run",
                assertThrows(IllegalStateException.class, () -> x.get(0)).getMessage());
        assertEquals(
                "syncThreads may only be called in run",
                assertThrows(IllegalStateException.class, block::syncThreads).getMessage());
        assertEquals(
                "threads must be at most 1024, not 1025",
                assertThrows(IllegalArgumentException.class, () -> new EmulatedBlock(1025))
                        .getMessage());
        assertThrows(ArithmeticException.class, () -> block.run(thread -> x.set(thread, 1 / thread)));
    }
}
