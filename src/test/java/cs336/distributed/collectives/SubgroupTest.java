package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.launch.WaitingLaunches;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(300)
class SubgroupTest {
    private static final int RANKS = 4;

    private static final WaitingLaunches WAITING = new WaitingLaunches();

    @BeforeAll
    static void startTogether() {
        for (String how : new String[] {"hangs", "diverges"}) {
            WAITING.start(how, RANKS, DisturbedSubgroup.class, how);
        }
    }

    private static Tensor fp64(double... values) {
        return Tensors.of(values, values.length).to(DType.FLOAT64.scalarType());
    }

    /** Every check on subgroups that do not fail. */
    public static final class Subgroups implements RankProgram<Long, ArrayList<String>> {
        @Override
        public ArrayList<String> run(ProcessGroup group, Long seed) {
            double[] values =
                    new Random(seed).ints(RANKS, -60, 60).asDoubleStream().toArray();
            try (var scope = MemoryScope.open()) {
                collectives(group, values);
                unequalColors(group);
                mesh(group);
                closing(group);
            }
            return new ArrayList<>(group.lastCalls());
        }

        /** Runs collectives of two subgroups and of the whole group at the same time. */
        private static void collectives(ProcessGroup group, double[] values) {
            int me = group.rank(), half = me / 2 * 2, parity = me % 2;
            ProcessGroup node = group.split(me / 2), across = group.split(parity);
            assertEquals(
                    List.of(parity, 2, me / 2, 2), List.of(node.rank(), node.size(), across.rank(), across.size()));
            assertEquals(me, across.world().rank());
            assertEquals(group.device(), across.device());
            assertEquals(List.of(node, across), group.subgroups());
            Tensor all = fp64(values[me]), inNode = fp64(values[me]), of = fp64(values[me], 1);
            Tensor three = fp64(me, me, me);
            List<PendingCollective> pending = List.of(
                    group.allReduceAsync(all, Reduction.SUM),
                    node.allReduceAsync(inNode, Reduction.AVERAGE),
                    across.allReduceAsync(of, Reduction.SUM),
                    across.allReduceAsync(three, Reduction.AVERAGE));
            pending.forEach(PendingCollective::await);
            assertEquals(Arrays.stream(values).sum(), all.item_double());
            assertEquals((values[half] + values[half + 1]) / 2, inNode.item_double());
            double sum = values[parity] + values[parity + 2];
            assertArrayEquals(new double[] {sum, 2}, Tensors.toDoubles(of));
            assertArrayEquals(new double[] {parity + 1, parity + 1, parity + 1}, Tensors.toDoubles(three));

            Tensor shard = fp64(0), gathered = fp64(0, 0), sent = fp64(values[me]);
            across.reduceScatter(shard, fp64(me, 10 * me), Reduction.SUM);
            assertEquals((2 * parity + 2) * (me < 2 ? 1 : 10), shard.item_double());
            node.allGather(gathered, shard);
            across.broadcast(sent, 1);
            assertEquals(values[parity + 2], sent.item_double());
            assertEquals(List.of("rank " + half, "rank " + (half + 1)), node.allGather("rank " + me));
            assertEquals(across.rank() == 1 ? List.of(parity, parity + 2) : List.of(), across.gather(me, 1));
            across.barrier();
            assertEquals(new Traffic.Volume(2, 16 + 24), across.traffic().of("all-reduce"));
            assertEquals(new Traffic.Volume(1, 8), group.traffic().of("all-reduce"));
            assertNull(group.waitingIn());
            assertArrayEquals(new double[] {RANKS - 1, 0}, group.max(new double[] {(me + RANKS - 1) % RANKS, -me}));
            assertEquals(
                    "root must be a rank from 0 to 1, not 2",
                    assertThrows(IllegalArgumentException.class, () -> across.broadcast(sent, 2))
                            .getMessage());
            assertThrows(IllegalStateException.class, () -> across.watch(() -> ""));
        }

        /** Rank 1 is alone; the others are divided again. */
        private static void unequalColors(ProcessGroup group) {
            int me = group.rank();
            ProcessGroup part = group.split(me == 1 ? -3 : 7);
            assertEquals(me == 1 ? 1 : 3, part.size());
            assertEquals(me == 1 ? List.of(1) : List.of(0, 2, 3), part.allGather(me));
            ProcessGroup inner = part.split(me == 0 ? 0 : 1);
            assertEquals(me < 2 ? List.of(me) : List.of(2, 3), inner.allGather(me));
            assertEquals(me == 3 ? 1 : 0, inner.rank());
            part.close(); // and the subgroup of it
            assertThrows(IllegalStateException.class, inner::barrier);
        }

        private static void mesh(ProcessGroup group) {
            int me = group.rank(), before = group.subgroups().size();
            DeviceMesh mesh = group.mesh(2);
            assertEquals(me / 2, mesh.replica());
            assertEquals(List.of(me / 2 * 2, me / 2 * 2 + 1), mesh.shards().allGather(me));
            assertEquals(List.of(me % 2, me % 2 + 2), mesh.replicas().allGather(me));
            assertSame(mesh, group.mesh(2));
            assertEquals(before + 2, group.subgroups().size());
            assertEquals(new DeviceMesh(group, group, null), group.mesh(1));
            assertEquals(1, group.mesh(RANKS).shards().size());
            assertEquals(me, group.mesh(RANKS).replica());
            for (int replicas : new int[] {-1, 0, 3, 8}) {
                assertEquals(
                        "replicas must be a divisor of the number of ranks, 4, not " + replicas,
                        assertThrows(IllegalArgumentException.class, () -> group.mesh(replicas))
                                .getMessage());
            }
            assertEquals(
                    "replicas must be equal on all ranks; it is 4 on rank 0 and 2 on rank 3",
                    assertThrows(IllegalArgumentException.class, () -> group.mesh(me == 3 ? 2 : 4))
                            .getMessage());
        }

        private static void closing(ProcessGroup group) {
            ProcessGroup pair = group.split(group.rank() % 2);
            pair.barrier();
            pair.close();
            pair.close();
            assertTrue(group.subgroups().stream().noneMatch(open -> open == pair));
            assertEquals(
                    "the process group is closed",
                    assertThrows(IllegalStateException.class, pair::barrier).getMessage());
            group.barrier(); // the whole group still works
        }
    }

    @Test
    void subgroupsHaveTheirOwnRanksAndCollectives() throws Exception {
        long seed = new Random().nextLong();
        System.out.println("seed " + seed);
        List<ArrayList<String>> calls =
                Launcher.of(RANKS).timeout(Duration.ofSeconds(20)).run(Subgroups.class, seed);
        String last = String.join("\n", calls.get(3));
        assertTrue(last.contains(" of ranks [1, 3]: barrier of int64 [2]"), last);
    }

    private record WholeAndPart(ProcessGroup whole, ProcessGroup part) {
        /** Joins as one of two ranks and runs three equal collectives, after which ranks compare no further ones. */
        static WholeAndPart join(int rank, Path store) {
            try (var scope = MemoryScope.open()) {
                ProcessGroup whole = ProcessGroup.join(
                        World.local(rank, 2, 1), CollectiveBackend.GLOO, Duration.ofSeconds(10), store);
                var groups = new WholeAndPart(whole, whole.split(0).split(0));
                for (int i = 0; i < 3; i++) {
                    groups.part.allReduce(fp64(1), Reduction.SUM);
                }
                return groups;
            }
        }
    }

    @Test
    void aFailureOfASubgroupIsOneOfTheWholeGroupAndRepeatsWhenAwaitedAgain(@TempDir Path folder) throws Exception {
        Path store = folder.resolve("store");
        var second = CompletableFuture.supplyAsync(() -> WholeAndPart.join(1, store));
        WholeAndPart first = WholeAndPart.join(0, store);
        WholeAndPart other = second.get();
        try (var scope = MemoryScope.open()) {
            PendingCollective pending = first.part.allReduceAsync(fp64(1), Reduction.SUM); // without the other rank
            assertNull(first.whole.failure());
            var failure = assertThrows(CollectiveFailure.class, pending::await);
            assertSame(failure, assertThrows(CollectiveFailure.class, pending::await));
            assertSame(failure, first.part.failure());
            assertSame(failure, first.whole.failure());
        } finally {
            first.whole.abandon();
            other.whole.abandon();
        }
    }

    /** Ranks 1 and 3 share a subgroup, in which rank 3 does something else. */
    public static final class DisturbedSubgroup implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String how) throws Exception {
            try (var scope = MemoryScope.open()) {
                ProcessGroup pair = group.split(group.rank() % 2);
                for (int step = 0; ; step++) {
                    if (step == 5 && group.rank() == 3) {
                        switch (how) {
                            case "hangs" -> Thread.sleep(600_000);
                            case "diverges" -> pair.broadcast(fp64(1), 0);
                            default -> throw new AssertionError(how);
                        }
                    }
                    pair.allReduce(fp64(1), Reduction.SUM);
                    group.allReduce(fp64(1), Reduction.SUM);
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "hangs | rank 3 of 4: it is at DisturbedSubgroup.run",
                "diverges | collective 6 of ranks [1, 3] is broadcast (root 0) of fp64 [1] on rank 3, but all-reduce (sum)",
            })
    void aDisturbedSubgroupEndsAllRanksAndNamesTheCause(String how, String message) {
        RankFailure failure = WAITING.failure(how, RANKS, DisturbedSubgroup.class, how);
        assertTrue(failure.getMessage().contains(message), failure.getMessage());
    }
}
