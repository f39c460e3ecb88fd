package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.bench.MemoryGrowth;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Backward;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Trains 1,000 steps with {@link FullyShardedDataParallel} and NCCL, and observes the memory of each rank. */
@Tag("gpu")
class FsdpGpuMemoryTest {
    private static final int STEPS = 1_000;
    private static final int EARLY = 10;
    private static final int BLOCK = 100;
    private static final int SETTLED = 200;
    /** Allowed growth of C heap and Java heap, whose noise is as large as a leaked tensor object per step. */
    private static final double BYTES_PER_STEP = 1_000;
    /** The bytes that NCCL 2.27.3 and later loses per collective in a group of one rank (NVIDIA/nccl#1944). */
    private static final int LOST_BY_NCCL = 160;

    /**
     * Returns the device's bytes in use and the heap's, without NCCL's loss, after {@code EARLY} steps and each block.
     */
    public static final class SteadyFsdp implements RankProgram<Integer, ArrayList<long[]>> {
        @Override
        public ArrayList<long[]> run(ProcessGroup group, Integer steps) throws InterruptedException {
            Device device = group.device();
            var samples = new ArrayList<long[]>();
            Batches batches = Batches.random(17, 2, 6, device, group.rank());
            try (var fsdp = FullyShardedDataParallelTest.tiny(group);
                    var module = fsdp.module();
                    var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(1e-3))) {
                for (int step = 1; step <= steps; step++) {
                    try (var scope = MemoryScope.open()) {
                        Batches.Batch batch = batches.next();
                        Backward.of(Losses.crossEntropy(fsdp.forward(batch.inputs()), batch.targets()))
                                .run();
                        fsdp.finishGradientSynchronization();
                        fsdp.clipGradients(1);
                        optimizer.step();
                        optimizer.zeroGrad();
                    }
                    if (step == EARLY || step % BLOCK == 0) {
                        device.synchronize();
                        long heap = MemoryGrowth.inUse(); // collects tensor objects that are still to be freed
                        samples.add(new long[] {MemoryStats.current(device), heap - lostByNccl(group)});
                    }
                }
            }
            return samples;
        }

        private static long lostByNccl(ProcessGroup group) {
            return group.size() > 1 ? 0 : LOST_BY_NCCL * group.calls();
        }
    }

    @Test
    void thousandStepsUseAsMuchMemoryAsTen() throws InterruptedException {
        int ranks = Math.min(2, Device.cudaCount());
        for (List<long[]> samples : Launcher.of(ranks)
                .backend(CollectiveBackend.NCCL)
                .threads(1)
                .timeout(Duration.ofSeconds(20))
                .run(SteadyFsdp.class, STEPS)) {
            assertEquals(1 + STEPS / BLOCK, samples.size());
            assertEquals(samples.get(0)[0], samples.get(samples.size() - 1)[0], () -> numbers(samples));
            double perStep = MemoryGrowth.slope(settled(samples, 1)) / BLOCK;
            assertTrue(perStep <= BYTES_PER_STEP, () -> "a step leaks " + perStep + " bytes: " + numbers(samples));
        }
    }

    /** Returns the samples of a column after the first steps, in which code is compiled. */
    private static long[] settled(List<long[]> samples, int column) {
        return samples.subList(SETTLED / BLOCK, samples.size()).stream()
                .mapToLong(sample -> sample[column])
                .toArray();
    }

    private static String numbers(List<long[]> samples) {
        return samples.stream().map(sample -> sample[0] + " and " + sample[1]).toList() + " bytes on device and heap";
    }
}
