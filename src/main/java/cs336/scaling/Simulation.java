package cs336.scaling;

import cs336.units.Seconds;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;

/**
 * A discrete-event simulation of tasks on resources. A task waits for other tasks, then for its resource, and occupies
 * the resource until its work is done. Dependencies have no cycles, because a task can only wait for tasks that were
 * created before it.
 *
 * <pre>{@code
 * var simulation = new Simulation();
 * Resource compute = simulation.stream("compute");
 * Resource network = simulation.stream("communication");
 * SimulationTask backward = simulation.task("backward", compute, Seconds.ms(2));
 * simulation.task("all-reduce", network, Seconds.ms(1), backward);
 * simulation.run().finish();                                              // 3 ms
 * }</pre>
 */
public final class Simulation {
    private final List<SimulationTask> tasks = new ArrayList<>();
    private final PriorityQueue<SimulationEvent> events = new PriorityQueue<>(
            Comparator.comparingDouble(SimulationEvent::time).thenComparingLong(SimulationEvent::number));
    private double now;
    private long eventCount;
    private boolean ran;

    /** A resource that runs one task at a time. */
    public final class Resource {
        private final String name;
        private final boolean inOrder;
        private final Map<Resource, Double> slowedBy = new HashMap<>();
        private final List<Resource> slows = new ArrayList<>();
        private final Deque<SimulationTask> waiting = new ArrayDeque<>();
        private SimulationTask last;
        private SimulationTask running;

        private Resource(String name, boolean inOrder) {
            this.name = name;
            this.inOrder = inOrder;
        }

        /**
         * Makes this resource lose a fraction of its speed while the other one runs a task. For example, the kernels of
         * a collective take multiprocessors and memory bandwidth from computation.
         *
         * @param fraction the fraction of the speed that is lost, at least 0 and below 1
         * @return this resource
         * @throws IllegalArgumentException if the fraction is out of range
         */
        public Resource slowedBy(Resource other, double fraction) {
            if (!(fraction >= 0 && fraction < 1)) {
                throw new IllegalArgumentException("fraction must be at least 0 and below 1, not " + fraction);
            }
            slowedBy.put(other, fraction);
            other.slows.add(this);
            return this;
        }

        private double speed() {
            double speed = 1;
            for (var entry : slowedBy.entrySet()) {
                if (entry.getKey().running != null) {
                    speed *= 1 - entry.getValue();
                }
            }
            return speed;
        }
    }

    /** A piece of work on a resource. */
    public static final class SimulationTask {
        private final String name;
        private final Resource on;
        private final double delay;
        private final List<SimulationTask> next = new ArrayList<>();
        private int waitsFor;
        private double left;
        private double since;
        private double speed;
        private long event;
        private double start = Double.NaN;
        private double end = Double.NaN;

        private SimulationTask(String name, Resource on, double work, double delay) {
            this.name = name;
            this.on = on;
            this.left = work;
            this.delay = delay;
        }
    }

    private record SimulationEvent(double time, long number, SimulationTask task, boolean releases) {}

    /** Returns a resource whose tasks run in the order in which they were created, like a CUDA stream. */
    public Resource stream(String name) {
        return new Resource(name, true);
    }

    /** Returns a resource whose tasks run in the order in which they become ready, like a link. */
    public Resource link(String name) {
        return new Resource(name, false);
    }

    /** Creates a task that waits for other tasks. */
    public SimulationTask task(String name, Resource on, Seconds work, SimulationTask... after) {
        return task(name, on, work, Seconds.ZERO, List.of(after));
    }

    /**
     * Creates a task that waits for other tasks.
     *
     * @param work time on the resource at full speed
     * @param delay time from releasing the resource until dependent tasks may start: the latency of a link
     */
    public SimulationTask task(
            String name, Resource on, Seconds work, Seconds delay, Collection<SimulationTask> after) {
        var task = new SimulationTask(name, on, work.value(), delay.value());
        for (SimulationTask before : after) {
            addDependency(before, task);
        }
        if (on.inOrder) {
            if (on.last != null) {
                addDependency(on.last, task);
            }
            on.last = task;
        }
        tasks.add(task);
        return task;
    }

    private static void addDependency(SimulationTask before, SimulationTask task) {
        before.next.add(task);
        task.waitsFor++;
    }

    /**
     * Runs all tasks.
     *
     * @throws IllegalStateException if the simulation has run before
     */
    public Schedule run() {
        if (ran) {
            throw new IllegalStateException("a simulation runs only once");
        }
        ran = true;
        for (SimulationTask task : tasks) {
            if (task.waitsFor == 0) {
                ready(task);
            }
        }
        double finish = 0;
        while (!events.isEmpty()) {
            SimulationEvent event = events.remove();
            if (event.number != event.task.event) {
                continue; // outdated, because the task's speed has changed
            }
            now = event.time;
            finish = Math.max(finish, now);
            if (event.releases) {
                release(event.task);
            } else {
                done(event.task);
            }
        }
        return new Schedule(
                tasks.stream()
                        .map(t -> new Schedule.Span(t.name, t.on.name, new Seconds(t.start), new Seconds(t.end)))
                        .toList(),
                new Seconds(finish));
    }

    private void ready(SimulationTask task) {
        if (task.on.running == null) {
            start(task);
        } else {
            task.on.waiting.add(task);
        }
    }

    private void start(SimulationTask task) {
        task.on.running = task;
        task.start = now;
        task.since = now;
        task.speed = task.on.speed();
        expect(task, now + task.left / task.speed, true);
        changeSpeeds(task.on);
    }

    private void release(SimulationTask task) {
        Resource on = task.on;
        task.end = now;
        on.running = null;
        if (on.waiting.isEmpty()) {
            changeSpeeds(on);
        } else {
            start(on.waiting.remove());
        }
        if (task.delay == 0) {
            done(task);
        } else {
            expect(task, now + task.delay, false);
        }
    }

    private void done(SimulationTask task) {
        for (SimulationTask next : task.next) {
            if (--next.waitsFor == 0) {
                ready(next);
            }
        }
    }

    /** Updates the speed of the tasks that a resource slows down, after it has become busy or idle. */
    private void changeSpeeds(Resource changed) {
        for (Resource slowed : changed.slows) {
            SimulationTask task = slowed.running;
            if (task == null) {
                continue;
            }
            double speed = slowed.speed();
            if (speed == task.speed) {
                continue;
            }
            task.left -= (now - task.since) * task.speed;
            task.since = now;
            task.speed = speed;
            expect(task, now + Math.max(0, task.left) / speed, true);
        }
    }

    private void expect(SimulationTask task, double time, boolean releases) {
        task.event = ++eventCount;
        events.add(new SimulationEvent(time, task.event, task, releases));
    }
}
