package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Table;

class MemoryRecordTest {
    @Test
    void largestBlocksOfTheSameSizeAreOrderedByOriginAndThenByCategory() {
        var blocks = new ArrayList<Allocation>();
        var expected = new ArrayList<String>();
        for (String place : List.of("a", "b", "c", "d", "e", "f", "g", "h")) {
            for (MemoryCategory category : List.of(MemoryCategory.ACTIVATIONS, MemoryCategory.WORKSPACE)) {
                blocks.add(new Allocation(0, 64, 0, 1, "forward", place, category, ""));
                expected.add("forward: " + place + " " + category);
            }
        }
        var random = new Random(1);
        for (int i = 0; i < 20; i++) {
            Collections.shuffle(blocks, random);
            var record = new MemoryRecord("cpu", blocks, List.of(), List.of(0L, 1L), null);
            Table largest = record.largest(0, 2, blocks.size());
            assertEquals(
                    expected,
                    IntStream.range(0, largest.rowCount())
                            .mapToObj(
                                    row -> largest.getString(row, "origin") + " " + largest.getString(row, "category"))
                            .toList());
        }
    }
}
