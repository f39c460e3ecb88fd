package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.BinaryOperator;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class ProcessGroupTest {
    static final int N = 12; // values per rank
    static final List<DType> DTYPES = List.of(DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    /** Returns integers, whose sums are exact in every dtype; an average over three ranks is rounded. */
    static double[] values(long seed, int rank) {
        return new Random(seed + rank).ints(N, -60, 60).asDoubleStream().toArray();
    }

    static Tensor tensor(DType dtype, double... values) {
        return Tensors.of(values, values.length).to(dtype.scalarType());
    }

    /** Runs every collective once per dtype on the values of each rank, on the group's device. */
    public static final class EveryCollective implements RankProgram<Long, LinkedHashMap<String, double[]>> {
        @Override
        public LinkedHashMap<String, double[]> run(ProcessGroup group, Long seed) {
            var found = new LinkedHashMap<String, double[]>();
            for (DType dtype : DTYPES) {
                try (var scope = MemoryScope.open()) {
                    collectives(group, seed, dtype, found);
                }
            }
            group.barrier();
            List<double[]> gathered = group.gather(values(seed, group.rank()), group.size() - 1);
            found.put(
                    "gather", gathered.stream().flatMapToDouble(Arrays::stream).toArray());
            return found;
        }

        private static void collectives(ProcessGroup group, long seed, DType dtype, Map<String, double[]> found) {
            double[] mine = values(seed, group.rank());
            for (Reduction reduction : Reduction.values()) {
                Tensor reduced = on(group, dtype, mine);
                group.allReduce(reduced, reduction);
                found.put(dtype + " all-reduce " + reduction, Tensors.toDoubles(reduced));
                Tensor in = on(group, dtype, mine), part = on(group, dtype, poison(N / group.size()));
                group.reduceScatter(part, in, reduction);
                found.put(dtype + " reduce-scatter " + reduction, Tensors.toDoubles(part));
                assertArrayEquals(mine, Tensors.toDoubles(in));
            }
            Tensor in = on(group, dtype, mine), all = on(group, dtype, poison(N * group.size()));
            group.allGather(all, in);
            found.put(dtype + " all-gather", Tensors.toDoubles(all));
            otherShapes(group, dtype, mine, found);
            group.broadcast(in, group.size() - 1);
            found.put(dtype + " broadcast", Tensors.toDoubles(in));
        }

        /** Gathers and scatters tensors whose elements fit, but not their dimensions. */
        private static void otherShapes(ProcessGroup group, DType dtype, double[] mine, Map<String, double[]> found) {
            int n = group.size(), part = N / n;
            Tensor stacked = on(group, dtype, poison(N * n)).view(n, N);
            group.allGather(stacked, on(group, dtype, mine));
            found.put(dtype + " all-gather, stacked", Tensors.toDoubles(stacked));
            Tensor flat = on(group, dtype, poison(N * n));
            group.allGather(flat, on(group, dtype, mine).view(part, n));
            found.put(dtype + " all-gather, flat", Tensors.toDoubles(flat));
            Tensor row = on(group, dtype, poison(part));
            group.reduceScatter(row, on(group, dtype, mine).view(n, part), Reduction.SUM);
            found.put(dtype + " reduce-scatter, stacked", Tensors.toDoubles(row));
            Tensor matrix = on(group, dtype, poison(part)).view(1, part);
            group.reduceScatter(matrix, on(group, dtype, mine), Reduction.SUM);
            found.put(dtype + " reduce-scatter, flat", Tensors.toDoubles(matrix));
            several(group, dtype, mine, found);
        }

        /** Gathers and scatters two tensors of different shapes in one collective. */
        private static void several(ProcessGroup group, DType dtype, double[] mine, Map<String, double[]> found) {
            int n = group.size(), part = N / n;
            List<Tensor> all = List.of(
                    on(group, dtype, poison(n)), on(group, dtype, poison(N * n)).view(n, N));
            group.allGatherAsync("all", all, List.of(on(group, dtype, new double[] {7}), on(group, dtype, mine)))
                    .await();
            found.put(dtype + " all-gather, second of two", Tensors.toDoubles(all.get(1)));
            assertArrayEquals(DoubleStream.generate(() -> 7).limit(n).toArray(), Tensors.toDoubles(all.get(0)));
            for (Reduction reduction : Reduction.values()) {
                List<Tensor> parts = List.of(on(group, dtype, poison(part)), on(group, dtype, poison(1)));
                Tensor in = on(group, dtype, mine);
                double[] ranks = DoubleStream.generate(group::rank).limit(n).toArray();
                group.reduceScatterAsync("parts", parts, List.of(in, on(group, dtype, ranks)), reduction)
                        .await();
                found.put(dtype + " reduce-scatter, first of two " + reduction, Tensors.toDoubles(parts.get(0)));
                assertArrayEquals(mine, Tensors.toDoubles(in));
                double sum = n * (n - 1) / 2.0;
                double expected = reduction == Reduction.SUM ? sum : reduction == Reduction.MAX ? n - 1 : sum / n;
                double rounding = reduction == Reduction.AVERAGE ? 0.01 : 0;
                assertEquals(expected, Tensors.toDoubles(parts.get(1))[0], rounding);
            }
        }

        private static Tensor on(ProcessGroup group, DType dtype, double... values) {
            return tensor(dtype, values).to(group.device().toTorch(), dtype.scalarType());
        }

        private static double[] poison(int length) {
            double[] poison = new double[length];
            Arrays.fill(poison, Double.NaN);
            return poison;
        }
    }

    @Test
    void everyCollectiveMatchesItsDefinition() throws Exception {
        requireEveryCollective(Launcher.of(3), 3);
    }

    /** Runs every collective and compares the results with fp64 arithmetic in Java. */
    static void requireEveryCollective(Launcher launcher, int ranks) throws InterruptedException {
        long seed = new Random().nextLong();
        System.out.println("seed " + seed);
        List<LinkedHashMap<String, double[]>> found = launcher.run(EveryCollective.class, seed);

        List<double[]> all =
                IntStream.range(0, ranks).mapToObj(rank -> values(seed, rank)).toList();
        double[] sum = reduce(all, (a, b) -> a + b), max = reduce(all, Math::max);
        double[] average = Arrays.stream(sum).map(x -> x / ranks).toArray();
        double[] gathered = all.stream().flatMapToDouble(Arrays::stream).toArray();
        int part = N / ranks;
        for (int rank = 0; rank < ranks; rank++) {
            Map<String, double[]> of = found.get(rank);
            for (DType dtype : DTYPES) {
                double rounding = 60 * Math.pow(2, Map.of(8, -50, 4, -20, 2, -6).get(dtype.bytes()));
                for (Reduction reduction : Reduction.values()) {
                    double[] expected = reduction == Reduction.SUM ? sum : reduction == Reduction.MAX ? max : average;
                    double allowed = reduction == Reduction.AVERAGE ? rounding : 0;
                    assertArrayEquals(expected, of.get(dtype + " all-reduce " + reduction), allowed);
                    assertArrayEquals(
                            Arrays.copyOfRange(expected, rank * part, (rank + 1) * part),
                            of.get(dtype + " reduce-scatter " + reduction),
                            allowed);
                    assertArrayEquals(
                            Arrays.copyOfRange(expected, rank * part, (rank + 1) * part),
                            of.get(dtype + " reduce-scatter, first of two " + reduction),
                            allowed);
                }
                assertArrayEquals(gathered, of.get(dtype + " all-gather"));
                assertArrayEquals(gathered, of.get(dtype + " all-gather, second of two"));
                for (String shape : List.of("stacked", "flat")) {
                    assertArrayEquals(gathered, of.get(dtype + " all-gather, " + shape));
                    assertArrayEquals(
                            Arrays.copyOfRange(sum, rank * part, (rank + 1) * part),
                            of.get(dtype + " reduce-scatter, " + shape));
                }
                assertArrayEquals(all.get(ranks - 1), of.get(dtype + " broadcast"));
            }
            assertArrayEquals(rank == ranks - 1 ? gathered : new double[0], of.get("gather"));
        }
    }

    private static double[] reduce(List<double[]> all, BinaryOperator<Double> operator) {
        double[] result = all.get(0).clone();
        for (double[] next : all.subList(1, all.size())) {
            for (int i = 0; i < N; i++) {
                result[i] = operator.apply(result[i], next[i]);
            }
        }
        return result;
    }

    /** Averages values near the largest fp16 value. */
    public static final class LargeAverages implements RankProgram<Double, ArrayList<double[]>> {
        @Override
        public ArrayList<double[]> run(ProcessGroup group, Double value) {
            var found = new ArrayList<double[]>();
            try (var scope = MemoryScope.open()) {
                Tensor all = tensor(DType.FLOAT16, value, -value), part = tensor(DType.FLOAT16, Double.NaN);
                group.reduceScatter(part, all, Reduction.AVERAGE);
                found.add(Tensors.toDoubles(part));
                found.add(Tensors.toDoubles(all));
                group.allReduce(all, Reduction.AVERAGE);
                found.add(Tensors.toDoubles(all));
            }
            return found;
        }
    }

    @Test
    void anAverageInFp16IsFiniteWhereTheSumIsNot() throws Exception {
        double value = 32 * (1100 + new Random().nextInt(900)); // exact in fp16, but twice the value overflows
        List<ArrayList<double[]>> ranks = Launcher.of(2).run(LargeAverages.class, value);
        for (int rank = 0; rank < 2; rank++) {
            assertArrayEquals(
                    new double[] {rank == 0 ? value : -value}, ranks.get(rank).get(0));
            assertArrayEquals(new double[] {value, -value}, ranks.get(rank).get(1), "the input does not change");
            assertArrayEquals(new double[] {value, -value}, ranks.get(rank).get(2));
        }
    }

    /** Runs many collectives at once, whose tensors leave their memory scope, and then gathers values of any length. */
    public static final class ManyAtOnce implements RankProgram<Integer, ArrayList<String>> {
        @Override
        public ArrayList<String> run(ProcessGroup group, Integer count) {
            List<Tensor> tensors = new ArrayList<>();
            List<PendingCollective> pending = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                try (var scope = MemoryScope.open()) {
                    Tensor t = MemoryScope.keep(tensor(DType.FLOAT32, i, i * (1 + group.rank())));
                    tensors.add(t);
                    pending.add(group.allReduceAsync(t, i % 2 == 0 ? Reduction.SUM : Reduction.AVERAGE));
                }
            }
            for (PendingCollective p : pending) {
                p.await();
                p.await();
            }
            for (int i = 0; i < count; i++) {
                double whole = i % 2 == 0 ? 1 : 0.5;
                assertArrayEquals(new double[] {2 * i * whole, 3 * i * whole}, Tensors.toDoubles(tensors.get(i)));
            }
            requireNoGrowth(group);
            var values = new ArrayList<>(group.allGather("x".repeat(group.rank() * 1000)));
            values.add(String.valueOf(group.allGather(group.rank() == 0 ? null : 7)));
            values.add(String.valueOf(group.gather("y".repeat(2 - group.rank()), 0)));
            return values;
        }
    }

    /** All-reduces 300 tensors of 1 MB; if they were kept, memory would grow by 300 MB. */
    private static void requireNoGrowth(ProcessGroup group) {
        long before = 0;
        for (int i = 0; i < 350; i++) {
            if (i == 50) {
                before = Pointer.physicalBytes();
            }
            try (var scope = MemoryScope.open()) {
                group.allReduceAsync(torch.ones(new long[] {262_144}), Reduction.AVERAGE)
                        .await();
            }
        }
        long growth = Pointer.physicalBytes() - before;
        assertTrue(growth < 100 << 20, "grown by " + (growth >> 20) + " MB");
    }

    @Test
    void manyCollectivesMayBeUnderWayAtOnceAndValuesOfAnyLengthAreGathered() throws Exception {
        var expected = List.of("", "x".repeat(1000), "[null, 7]");
        List<ArrayList<String>> ranks = Launcher.of(2).run(ManyAtOnce.class, 100);
        assertEquals(expected, ranks.get(0).subList(0, 3));
        assertEquals(expected, ranks.get(1).subList(0, 3));
        assertEquals(
                List.of("[yy, y]", "[]"),
                List.of(ranks.get(0).get(3), ranks.get(1).get(3)));
    }

    @Test
    void invalidTensorsAreRejectedBeforeAnyCommunication(@TempDir Path folder) {
        var world = World.local(0, 1, 29_500);
        try (var scope = MemoryScope.open();
                var group = ProcessGroup.join(
                        world, CollectiveBackend.GLOO, Duration.ofSeconds(5), folder.resolve("store"))) {
            Tensor six = tensor(DType.FLOAT32, 1, 2, 3, 4, 5, 6), whole = tensor(DType.INT64, 1, 2);
            Map<String, Runnable> wrong = Map.of(
                    "tensor must be a tensor, not null", () -> group.allReduce(null, Reduction.SUM),
                    "reduction must be SUM, AVERAGE or MAX, not null", () -> group.allReduce(six, null),
                    "tensor must be contiguous; a view of shape [3, 2] is not",
                            () -> group.allReduce(six.view(2, 3).t(), Reduction.SUM),
                    "tensor must be one of [fp64, fp32, bf16, fp16] for an average, not int64",
                            () -> group.allReduce(whole, Reduction.AVERAGE),
                    "root must be a rank from 0 to 0, not 1", () -> group.broadcast(six, 1),
                    "root must be a rank from 0 to 0, not -1", () -> group.gather("", -1),
                    "out must have 1 × the 2 elements of in, in int64; it has 6 in fp32",
                            () -> group.allGather(six, whole),
                    "in must have 1 × the 6 elements of out, in fp32; it has 2 in int64",
                            () -> group.reduceScatter(six, whole, Reduction.SUM));
            Map<String, Runnable> wrongLists = Map.of(
                    "outs and ins must have equally many tensors, at least 1, not 0 and 0",
                            () -> group.allGatherAsync("a", List.of(), List.of()),
                    "outs and ins must have equally many tensors, at least 1, not 1 and 2",
                            () -> group.allGatherAsync("a", List.of(six), List.of(six, six)),
                    "ins[1] must have 1 × the 6 elements of outs[1], in fp32; it has 2 in int64",
                            () -> group.reduceScatterAsync("a", List.of(six, six), List.of(six, whole), Reduction.SUM),
                    "outs must have one dtype, not fp32 and int64",
                            () -> group.allGatherAsync("a", List.of(six, whole), List.of(six, whole)));
            wrongLists.forEach((message, call) -> assertEquals(
                    message,
                    assertThrows(IllegalArgumentException.class, call::run).getMessage()));
            wrong.forEach((message, call) -> assertEquals(
                    message,
                    assertThrows(IllegalArgumentException.class, call::run).getMessage()));
            group.allReduce(six, Reduction.SUM); // the group still works
        }
    }
}
