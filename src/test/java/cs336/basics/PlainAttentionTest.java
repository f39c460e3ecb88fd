package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.FutureTask;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PlainAttentionTest {
    private final PlainAttention attention = new PlainAttention();

    private static Tensor scores(long queries, long keys, DType dtype) {
        return torch.zeros(2, 3, queries, keys).to(dtype.scalarType());
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT64", "FLOAT32", "BFLOAT16", "FLOAT16"})
    void theMaskIsReusedForScoresOfTheSameShapeAndType(DType dtype) {
        try (var scope = MemoryScope.open()) {
            Tensor first = attention.causalMask(4, 6, scores(4, 6, dtype));
            assertEquals(dtype, DType.of(first));
            assertSame(first, attention.causalMask(4, 6, scores(4, 6, dtype)));
        }
    }

    @Test
    void theMaskFollowsTheShapeAndTypeOfTheScores() {
        try (var scope = MemoryScope.open()) {
            attention.causalMask(2, 3, scores(2, 3, DType.FLOAT32));
            Tensor wider = attention.causalMask(2, 4, scores(2, 4, DType.FLOAT32));
            double masked = Double.NEGATIVE_INFINITY;
            assertTrue(torch.equal(
                    wider,
                    Tensor.create(new double[] {0, masked, masked, masked, 0, 0, masked, masked}, 2, 4)
                            .to(torch.ScalarType.Float)));
            assertEquals(DType.BFLOAT16, DType.of(attention.causalMask(2, 4, scores(2, 4, DType.BFLOAT16))));
        }
    }

    @Test
    void aFreedMaskIsComputedAgain() {
        try (var scope = MemoryScope.open()) {
            Tensor first = attention.causalMask(2, 2, scores(2, 2, DType.FLOAT32));
            attention.freeCache();
            assertTrue(first.isNull());
            attention.freeCache();
            double[] expected = {0, Double.NEGATIVE_INFINITY, 0, 0};
            assertArrayEquals(expected, Tensors.toDoubles(attention.causalMask(2, 2, scores(2, 2, DType.FLOAT32))));
        }
    }

    @Test
    void severalThreadsMayUseSequencesOfDifferentLengths() throws Exception {
        int longest = 12;
        var threads = new ArrayList<FutureTask<Void>>();
        for (int thread = 0; thread < 4; thread++) {
            int first = thread;
            threads.add(new FutureTask<>(
                    () -> {
                        for (int i = 0; i < 300; i++) {
                            requireAverages(1 + (first + i) % longest);
                        }
                    },
                    null));
        }
        threads.forEach(task -> new Thread(task).start());
        for (FutureTask<Void> thread : threads) {
            thread.get();
        }
    }

    /** Checks attention with equal scores, which averages the values of all positions up to each. */
    private void requireAverages(int length) {
        try (var scope = MemoryScope.open()) {
            Tensor zeros = torch.zeros(1, 1, length, 2);
            double[] positions =
                    IntStream.range(0, 2 * length).mapToDouble(i -> i / 2).toArray(); // [T, 2]
            Tensor values = Tensor.create(positions, 1, 1, length, 2).to(torch.ScalarType.Float);
            double[] averages = Arrays.stream(positions).map(t -> t / 2).toArray();
            assertArrayEquals(averages, Tensors.toDoubles(attention.apply(zeros, zeros, values, true)), 1e-5);
        }
    }
}
