package cs336.planner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.bench.FsdpMode;
import cs336.planner.PlanTime.TimePart;
import cs336.planner.StoredCases.Execution;
import cs336.planner.StoredCases.StoredCase;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PlanTimeTest {
    private static final StepPlan XL =
            StepPlan.of(ModelSize.XL.config(ModelEdition.SPRING_2025, 512)).withBatch(4);

    @Test
    void stepsThatTheGpuLimitsAreWithinTwentyFivePercentAndMostWithinFifteen() throws IOException {
        var far = new ArrayList<String>();
        int compared = 0;
        for (StoredCase stored : StoredCases.all()) {
            StepPlan plan = stored.plan();
            // In bf16 a step that is GPU-bound by the prediction may have been launch-bound on a slower host.
            boolean comparable = stored.stepMs() != null
                    && stored.execution() == Execution.EAGER
                    && plan.gpus() == 1
                    && plan.precision() == Precision.FP32;
            if (!comparable) {
                continue;
            }
            PlanTime time = PlanTime.of(plan);
            if (time.parts().get(TimePart.LAUNCH_OVERHEAD).value() > 0) {
                continue;
            }
            compared++;
            double error = time.total().ms() / stored.stepMs() - 1;
            assertEquals(0, error, 0.25, plan.title());
            if (Math.abs(error) > 0.15) {
                far.add(stored.file() + " " + plan.title() + " %+.1f %%".formatted(100 * error));
            }
        }
        assertTrue(compared > 100, compared + " cases");
        assertTrue(far.size() <= 0.1 * compared, far.size() + " of " + compared + ": " + far);
    }

    /** Shorter steps may have been launch-bound, because the hooks of gradients and the collectives need the host. */
    @Test
    void longStepsOnSeveralGpusAreWithinFifteenPercent() throws IOException {
        int compared = 0;
        for (StoredCase stored : StoredCases.all()) {
            StepPlan plan = stored.plan();
            long tokens = (long) plan.batch() * plan.config().contextLength();
            if (stored.stepMs() == null || plan.gpus() == 1 || tokens < 1024) {
                continue;
            }
            PlanTime time = PlanTime.of(plan);
            if (time.total().ms() >= 150
                    && time.parts().get(TimePart.LAUNCH_OVERHEAD).value() == 0) {
                compared++;
                assertEquals(1, time.total().ms() / stored.stepMs(), 0.15, stored.file() + " " + plan.title());
            }
        }
        assertTrue(compared > 100, compared + " cases");
    }

    @Test
    void partsFollowFromThePlan() throws IOException {
        PlanTime step = PlanTime.of(XL);
        PlanTime forward = PlanTime.of(XL.withPass(Pass.FORWARD));
        assertEquals(0, forward.parts().get(TimePart.OPTIMIZER).value());
        assertEquals(
                3,
                step.parts().get(TimePart.GEMMS).value()
                        / forward.parts().get(TimePart.GEMMS).value(),
                0.2);
        PlanTime recomputed = PlanTime.of(XL.withCheckpointing(CheckpointPolicy.blocks(1)));
        double more = recomputed.parts().get(TimePart.GEMMS).value()
                - step.parts().get(TimePart.GEMMS).value();
        assertEquals(forward.parts().get(TimePart.GEMMS).value(), more, 1e-9);
        PlanTime slower = PlanTime.of(XL, PlanMachine.H100);
        assertEquals(
                4.8 / 3.35 * step.parts().get(TimePart.OPTIMIZER).ms(),
                slower.parts().get(TimePart.OPTIMIZER).ms(),
                1e-9);
    }

    @Test
    void shardingDividesTheOptimizerAndSendsParameters() throws IOException {
        double one = PlanTime.of(XL).parts().get(TimePart.OPTIMIZER).value();
        for (FsdpMode mode : List.of(FsdpMode.DDP, FsdpMode.ZERO_1, FsdpMode.FSDP)) {
            PlanTime time = PlanTime.of(XL.withGpus(2, mode));
            assertEquals(
                    mode == FsdpMode.DDP ? one : one / 2,
                    time.parts().get(TimePart.OPTIMIZER).value(),
                    1e-9);
            assertTrue(time.parts().get(TimePart.EXPOSED_COMMUNICATION).value() > 0, mode.toString());
        }
    }

    @Test
    void noTimeIsPredictedWithoutAProfile() {
        assertEquals(
                "dtype must be fp32, bf16 or fp16, not tf32: no profile of it is stored",
                assertThrows(IllegalArgumentException.class, () -> PlanTime.of(XL.withPrecision(Precision.TF32)))
                        .getMessage());
    }

    @Test
    void theCollectivesOfAShardedForwardPassAreNotPredicted() throws IOException {
        StepPlan forward = XL.withPass(Pass.FORWARD);
        PlanTime.of(forward.withGpus(2, FsdpMode.DDP)); // a forward pass of data parallelism has none
        StepPlan sharded = forward.withGpus(2, FsdpMode.FSDP);
        String message = assertThrows(IllegalArgumentException.class, () -> PlanTime.of(sharded))
                .getMessage();
        assertTrue(message.endsWith("the collectives of a forward pass alone are not predicted"), message);
    }

    /** With blocks-1 a launch-bound step launches another forward pass of all blocks. */
    @Test
    void recomputationAddsLaunches() throws IOException {
        StepPlan small = StepPlan.of(ModelSize.SMALL.config(ModelEdition.SPRING_2025, 128))
                .withBatch(4);
        double everything = PlanTime.of(small).total().value();
        double blocks = PlanTime.of(small.withCheckpointing(CheckpointPolicy.blocks(1)))
                .total()
                .value();
        assertTrue(blocks > 1.2 * everything, blocks + " s and " + everything + " s");
    }
}
