package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.scaling.Simulation.Resource;
import cs336.scaling.Simulation.SimulationTask;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class SimulationTest {
    private final Simulation simulation = new Simulation();

    private static Seconds s(double value) {
        return new Seconds(value);
    }

    @Test
    void tasksOfOneResourceRunOneAfterTheOtherAndOthersConcurrently() {
        Resource a = simulation.stream("a");
        Resource b = simulation.stream("b");
        SimulationTask first = simulation.task("first", a, s(2));
        simulation.task("second", a, s(3));
        simulation.task("third", b, s(4), first);
        Schedule schedule = simulation.run();
        assertEquals(6, schedule.finish().value());
        assertEquals(2, schedule.on("b").get(0).start().value());
        assertEquals(5, schedule.busy("a").value());
    }

    @Test
    void aStreamKeepsItsOrderAndALinkServesTheFirstReadyTask() {
        for (boolean inOrder : new boolean[] {true, false}) {
            var simulation = new Simulation();
            Resource other = simulation.stream("other");
            Resource served = inOrder ? simulation.stream("served") : simulation.link("served");
            SimulationTask late = simulation.task("late", other, s(5));
            simulation.task("waits", served, s(1), late);
            simulation.task("ready", served, s(1));
            List<String> order = simulation.run().on("served").stream()
                    .map(Schedule.Span::task)
                    .toList();
            assertEquals(inOrder ? List.of("waits", "ready") : List.of("ready", "waits"), order);
        }
    }

    @Test
    void latencyDelaysDependentTasksButDoesNotOccupyTheLink() {
        Resource link = simulation.link("link");
        SimulationTask first = simulation.task("first", link, s(1), s(10), List.of());
        simulation.task("second", link, s(1), s(10), List.of());
        simulation.task("answer", simulation.link("back"), s(1), s(10), List.of(first));
        Schedule schedule = simulation.run();
        assertEquals(1, schedule.on("link").get(1).start().value());
        assertEquals(11, schedule.on("back").get(0).start().value());
        assertEquals(22, schedule.finish().value());
    }

    @Test
    void aSlowedResourceLosesSpeedOnlyWhileTheOtherRuns() {
        Resource network = simulation.stream("network");
        Resource compute = simulation.stream("compute").slowedBy(network, 0.5);
        SimulationTask before = simulation.task("before", simulation.stream("elsewhere"), s(1));
        simulation.task("work", compute, s(4));
        simulation.task("send", network, s(2), before);
        // 1 s at full speed, 2 s at half, 2 s at full
        assertEquals(5, simulation.run().finish().value());
    }

    @Test
    void randomTasksAllRunOneAtATimePerResourceAndAfterTheirDependencies() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        List<Resource> resources = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            resources.add(i % 2 == 0 ? simulation.stream("r" + i) : simulation.link("r" + i));
        }
        List<SimulationTask> tasks = new ArrayList<>();
        List<List<Integer>> after = new ArrayList<>();
        double work = 0;
        for (int i = 0; i < 300; i++) {
            List<Integer> before = new ArrayList<>();
            for (int j = 0; j < 2 && i > 0; j++) {
                before.add(random.nextInt(i));
            }
            double length = 1 + random.nextInt(5);
            work += length;
            tasks.add(simulation.task(
                    "t" + i,
                    resources.get(random.nextInt(4)),
                    s(length),
                    Seconds.ZERO,
                    before.stream().map(tasks::get).toList()));
            after.add(before);
        }
        Schedule schedule = simulation.run();
        assertEquals(300, schedule.spans().size());
        double busy = 0;
        for (int r = 0; r < 4; r++) {
            busy += schedule.busy("r" + r).value();
            double end = 0;
            for (Schedule.Span span : schedule.on("r" + r)) {
                assertTrue(span.start().value() >= end, "seed " + seed + ": two at a time on r" + r);
                end = span.end().value();
            }
        }
        assertEquals(work, busy, "seed " + seed);
        for (int i = 0; i < 300; i++) {
            for (int before : after.get(i)) {
                assertTrue(
                        schedule.spans().get(i).start().value()
                                >= schedule.spans().get(before).end().value(),
                        "seed " + seed + ": t" + i + " before t" + before);
            }
        }
    }

    @Test
    void aSimulationRunsOnlyOnce() {
        simulation.task("only", simulation.stream("a"), s(1));
        simulation.run();
        assertThrows(IllegalStateException.class, simulation::run);
        var error = assertThrows(
                IllegalArgumentException.class, () -> simulation.stream("a").slowedBy(simulation.stream("b"), 1));
        assertEquals("fraction must be at least 0 and below 1, not 1.0", error.getMessage());
    }
}
