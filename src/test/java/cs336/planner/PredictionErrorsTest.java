package cs336.planner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelSize;
import cs336.bench.Precision;
import cs336.bench.Project;
import cs336.distributed.bench.FsdpMode;
import cs336.planner.PlanTime.TimePart;
import cs336.planner.StoredCases.Execution;
import cs336.planner.StoredCases.StoredCase;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The errors of predictions that notebook 00 states, compared with those of all stored cases. */
class PredictionErrorsTest {
    private static final Pattern STATED = Pattern.compile("predicted times are within (\\d+) %.*"
            + "predictions are off by up to (\\d+) % on one GPU and up to (\\d+) % on two.*"
            + "may need up to (\\d+) % more memory than planned");

    private static Matcher stated;
    private static List<TimedCase> times;

    private record TimedCase(StepPlan plan, PlanTime time, double error) {
        static TimedCase of(StoredCase stored) {
            try {
                PlanTime time = PlanTime.of(stored.plan());
                return new TimedCase(stored.plan(), time, Math.abs(time.total().ms() / stored.stepMs() - 1));
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        boolean isLaunchBound() {
            return time.parts().get(TimePart.LAUNCH_OVERHEAD).value() > 0;
        }

        long tokens() {
            return (long) plan.batch() * plan.config().contextLength();
        }
    }

    @BeforeAll
    static void read() throws IOException {
        stated = STATED.matcher(Files.readString(Project.path("notebooks/00-start-here.ipynb")));
        assertTrue(stated.find(), "notebook 00 states the errors");
        times = StoredCases.all().stream()
                .filter(stored -> stored.stepMs() != null
                        && stored.execution() == Execution.EAGER
                        && stored.plan().precision() != Precision.TF32)
                .map(TimedCase::of)
                .toList();
    }

    /** Returns the largest error of these cases in percent, rounded up. */
    private static long worst(Predicate<TimedCase> cases) {
        List<TimedCase> chosen = times.stream().filter(cases).toList();
        assertTrue(chosen.size() >= 10, chosen.size() + " cases");
        return (long) Math.ceil(
                100 * chosen.stream().mapToDouble(TimedCase::error).max().orElseThrow());
    }

    private static long number(int group) {
        return Long.parseLong(stated.group(group));
    }

    @Test
    void timesThatTheGpuLimits() {
        Predicate<TimedCase> comparable = timed -> timed.plan().precision() == Precision.FP32 && !timed.isLaunchBound();
        long one = worst(comparable.and(
                timed -> timed.plan().gpus() == 1 && timed.plan().config().contextLength() >= 512));
        long several = worst(comparable.and(timed -> timed.plan().gpus() > 1
                && timed.plan().config().dModel() >= ModelSize.LARGE.config().dModel()
                && timed.tokens() >= 1024));
        assertEquals(number(1), Math.max(one, several));
    }

    @Test
    void launchBoundTimes() {
        assertEquals(
                number(2), worst(timed -> timed.isLaunchBound() && timed.plan().gpus() == 1));
        assertEquals(
                number(3), worst(timed -> timed.isLaunchBound() && timed.plan().gpus() == 2));
    }

    @Test
    void memoryWithReplicatedParameters() throws IOException {
        double most = 0;
        for (StoredCase stored : StoredCases.all()) {
            StepPlan plan = stored.plan();
            if (stored.peakBytes() != null
                    && plan.gpus() == 2
                    && List.of(FsdpMode.DDP, FsdpMode.ZERO_1).contains(plan.mode())) {
                most = Math.max(
                        most,
                        stored.peakBytes()
                                / (double) PlanMemory.of(plan).total().count());
            }
        }
        assertEquals(number(4), (long) Math.ceil(100 * (most - 1)));
    }
}
