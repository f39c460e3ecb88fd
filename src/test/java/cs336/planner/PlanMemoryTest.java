package cs336.planner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Pass;
import cs336.distributed.bench.FsdpMode;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.units.Bytes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PlanMemoryTest {
    private static final StepPlan LARGE = StepPlan.of(ModelSize.LARGE.config(ModelEdition.SPRING_2025, 512));

    @Test
    void categoriesAddUpToThePeak() {
        PlanMemory memory = PlanMemory.of(LARGE.withBatch(4));
        long sum = memory.categories().values().stream().mapToLong(Bytes::count).sum();
        assertEquals(memory.total().count(), sum);
        double parameters = 4.0 * LARGE.config().parameterCount();
        assertEquals(1, memory.categories().get(TensorPurpose.PARAMETERS).count() / parameters, 0.05);
        assertEquals(2, memory.categories().get(TensorPurpose.OPTIMIZER_STATE).count() / parameters, 0.1);
        assertEquals(Bytes.NONE, memory.categories().get(TensorPurpose.COMMUNICATION_BUFFERS));
    }

    @ParameterizedTest
    @EnumSource(names = {"DDP", "ZERO_1", "FSDP", "FSDP_WITHOUT_PREFETCH"})
    void onOneGpuAllModesAreEqual(FsdpMode mode) {
        assertEquals(
                PlanMemory.of(LARGE).peak(),
                PlanMemory.of(LARGE.withGpus(1, mode)).peak());
    }

    @Test
    void eachFormOfShardingNeedsLessThanTheOneBefore() {
        long ddp = PlanMemory.of(LARGE.withGpus(4, FsdpMode.DDP)).total().count();
        long zero = PlanMemory.of(LARGE.withGpus(4, FsdpMode.ZERO_1)).total().count();
        long fsdp = PlanMemory.of(LARGE.withGpus(4, FsdpMode.FSDP)).total().count();
        double parameters = 4.0 * LARGE.config().parameterCount();
        assertEquals(2 * parameters * 3 / 4, ddp - zero, 0.1 * parameters);
        assertTrue(fsdp < zero);
        var sharded = PlanMemory.of(LARGE.withGpus(4, FsdpMode.FSDP)).categories();
        assertEquals(0.25, sharded.get(TensorPurpose.PARAMETERS).count() / parameters, 0.01);
        assertEquals(0.5, sharded.get(TensorPurpose.OPTIMIZER_STATE).count() / parameters, 0.02);
        assertTrue(sharded.get(TensorPurpose.COMMUNICATION_BUFFERS).count() > 0);
    }

    @Test
    void aForwardPassNeedsNeitherGradientsNorOptimizerState() {
        PlanMemory memory = PlanMemory.of(LARGE.withPass(Pass.FORWARD));
        assertEquals(Bytes.NONE, memory.categories().get(TensorPurpose.GRADIENTS));
        assertEquals(Bytes.NONE, memory.categories().get(TensorPurpose.OPTIMIZER_STATE));
        PlanMemory onTwo = PlanMemory.of(LARGE.withPass(Pass.FORWARD).withGpus(2, FsdpMode.DDP));
        assertEquals(memory.total(), onTwo.total(), "a forward pass sends no gradients");
        assertTrue(memory.fits(PlanMachine.H100));
        PlanMemory between = PlanMemory.of(
                StepPlan.of(ModelSize.XL.config(ModelEdition.SPRING_2025, 512)).withBatch(12));
        assertTrue(between.fits(PlanMachine.H200) && !between.fits(PlanMachine.H100), between.total() + " on an H100");
        assertFalse(PlanMemory.of(LARGE.withBatch(64)).fits(PlanMachine.H200));
    }

    @Test
    void invalidPlansAreRejectedInOneLine() {
        assertEquals(
                "mode must be ddp, zero-1, fsdp or fsdp-without-prefetch, not hsdp",
                assertThrows(IllegalArgumentException.class, () -> LARGE.withGpus(4, FsdpMode.HSDP))
                        .getMessage());
        assertEquals(
                "gpus must be at least 1, not 0",
                assertThrows(IllegalArgumentException.class, () -> LARGE.withGpus(0, FsdpMode.DDP))
                        .getMessage());
        assertEquals(
                "bucketMb must be above 0, not -1.0",
                assertThrows(IllegalArgumentException.class, () -> LARGE.withBucketMb(-1))
                        .getMessage());
    }
}
