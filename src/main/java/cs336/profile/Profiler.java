package cs336.profile;

import cs336.torch.AllocatorReports;
import cs336.torch.Device;
import cs336.torch.Kineto;
import cs336.torch.ProfilerRange;
import cs336.torch.RangeListener;
import cs336.torch.UserAnnotation;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * Records what a program does, on threads and on cards, through PyTorch's own profiler:
 *
 * <pre>{@code
 * try (var profiler = Profiler.start()) {
 *     for (int i = 0; i < 3; i++) {
 *         train(batch);
 *         profiler.step();
 *     }
 *     Profile profile = profiler.stop();
 *     System.out.println(profile.kernels());
 *     profile.write(Path.of("trace.json.gz")); // for Perfetto
 * }
 * }</pre>
 *
 * <p>Each {@link ProfilerRange} that opens meanwhile, on any thread, becomes a named range of the trace; modules open
 * theirs by themselves. One profiler runs at a time, and it is stopped on the thread that started it.
 *
 * <p>Recording takes time, which the recorded program pays on its threads: 2 to 3 µs an event (an operator, a range, a
 * CUDA call). On an H200 a training step of the small model at context 128, which waits for its launches, took 46 ms
 * without and 74 ms with the profiler; one of the medium model at context 512, which keeps the card busy, took 0.7 %
 * longer. Kernels themselves take as long as ever. The program {@code ProfilerCost} among the tests measures this
 * again. While none runs, ranges cost next to nothing: {@link RangeCost}.
 */
public final class Profiler implements AutoCloseable {
    private static final AtomicReference<Profiler> RUNNING = new AtomicReference<>();

    private final Options options;
    private final Thread starter = Thread.currentThread();
    private final Annotations annotations = new Annotations();
    private UserAnnotation step;
    private int steps;
    private Profile profile;
    private RuntimeException failure;
    private boolean stopped;

    /**
     * What to record besides operators and ranges.
     *
     * @param cuda kernels, copies and CUDA calls; needs a card
     * @param shapes the shapes of operators' inputs
     * @param memory each allocation; then operators of other threads than the one that starts the profiler, and those
     *     of PyTorch that work for it, are not recorded
     */
    public record Options(boolean cuda, boolean shapes, boolean memory) {
        public Options {
            if (cuda && Device.cudaCount() == 0) {
                throw new IllegalArgumentException("cuda must be false where there is no CUDA card to record");
            }
        }

        /** Cards if there are any; neither shapes nor memory. */
        public static Options standard() {
            return new Options(Device.cudaCount() > 0, false, false);
        }

        /** The same without cards. */
        public Options cpuOnly() {
            return new Options(false, shapes, memory);
        }

        /** The same with shapes. */
        public Options withShapes() {
            return new Options(cuda, true, memory);
        }

        /** The same with memory. */
        public Options withMemory() {
            return new Options(cuda, shapes, true);
        }
    }

    private Profiler(Options options) {
        this.options = options;
    }

    /** Starts recording with {@link Options#standard}. */
    public static Profiler start() {
        return start(Options.standard());
    }

    /**
     * Starts recording.
     *
     * @throws IllegalStateException if a profiler runs already, or memory is being recorded
     */
    public static Profiler start(Options options) {
        if (AllocatorReports.isListening()) {
            throw new IllegalStateException(
                    "memory is being recorded; stop that record first, or start it after the profiler");
        }
        Profiler profiler = new Profiler(options);
        if (!RUNNING.compareAndSet(null, profiler)) {
            throw new IllegalStateException("a profiler runs already, started on thread "
                    + RUNNING.get().starter.getName() + "; stop it first: PyTorch has only one");
        }
        try {
            if (Kineto.isRunning()) {
                throw new IllegalStateException(
                        "PyTorch's profiler runs already, started by other code; stop it first");
            }
            profiler.synchronize(); // work from before is not recorded
            Kineto.start(new Kineto.Settings(options.cuda, options.shapes, options.memory));
            profiler.step = UserAnnotation.enter(HostEvent.step(0));
            ProfilerRange.addListener(profiler.annotations);
        } catch (RuntimeException | Error e) {
            RUNNING.set(null);
            throw e;
        }
        return profiler;
    }

    /**
     * Ends a step and begins the next. Steps count from 0, which begins with the profiler; what is recorded after the
     * last call is a step of its own, unless it is nothing.
     *
     * @throws IllegalStateException if the profiler is stopped, this is not the thread that started it, or a range is
     *     open on it
     */
    public void step() {
        requireStarter("step");
        if (stopped) throw new IllegalStateException("step() came after the profiler was stopped");
        String open = annotations.innermost(starter);
        if (open != null) {
            throw new IllegalStateException("step() came inside the range '" + open + "'; a step ends outside ranges");
        }
        step.close();
        steps++;
        step = UserAnnotation.enter(HostEvent.step(steps));
    }

    /**
     * Waits for the cards and stops recording.
     *
     * @return what was recorded
     * @throws IllegalStateException if it was stopped before, this is not the thread that started it, ranges were left
     *     open, or nothing was recorded
     */
    public Profile stop() {
        requireStarter("stop");
        if (stopped) throw new IllegalStateException("the profiler was stopped before; profile() has what it recorded");
        finish();
        return profile();
    }

    /** Stops recording if {@link #stop} has not done so. */
    @Override
    public void close() {
        if (stopped) return;
        requireStarter("close");
        finish();
    }

    /**
     * What was recorded.
     *
     * @throws IllegalStateException if the profiler still runs, ranges were left open when it stopped, or nothing was
     *     recorded
     */
    public Profile profile() {
        if (!stopped) throw new IllegalStateException("the profiler still runs; stop() it first");
        if (failure != null) throw failure;
        return profile;
    }

    private void requireStarter(String call) {
        if (Thread.currentThread() != starter) {
            throw new IllegalStateException(call + "() must be called on thread " + starter.getName()
                    + ", which started the profiler, not on "
                    + Thread.currentThread().getName());
        }
    }

    private void synchronize() {
        if (options.cuda) torch_cuda.device_synchronize();
    }

    private void finish() {
        stopped = true;
        ProfilerRange.removeListener(annotations);
        List<String> open = annotations.endAll();
        step.close();
        Path file = null;
        try {
            file = Files.createTempFile("profile", ".json");
            synchronize();
            Kineto.stop(file);
            Trace trace = Trace.read(file).withoutEmptyLastStep();
            profile = new Profile(trace);
            if (!open.isEmpty()) {
                failure = new IllegalStateException("ranges were left open when the profiler stopped: "
                        + String.join(", ", open) + "; close them first");
            } else if (trace.isEmpty()) {
                failure = new IllegalStateException(
                        "nothing was recorded: no operator ran between start() and the end of the profiler");
            }
        } catch (IOException e) {
            throw new UncheckedIOException("what the profiler recorded could not be handed over in a file", e);
        } finally {
            RUNNING.set(null);
            delete(file);
        }
    }

    private static void delete(Path file) {
        try {
            if (file != null) Files.deleteIfExists(file);
        } catch (IOException e) {
            file.toFile().deleteOnExit();
        }
    }

    /** Turns ranges into annotations of the recording. */
    private static final class Annotations implements RangeListener {
        private record Open(String name, UserAnnotation annotation) {}

        private final Map<Thread, Deque<Open>> threads = new ConcurrentHashMap<>();
        private volatile boolean ended;

        @Override
        public void entered(String name) {
            Deque<Open> open = threads.computeIfAbsent(Thread.currentThread(), t -> new ArrayDeque<>());
            synchronized (open) {
                if (!ended) open.push(new Open(name, UserAnnotation.enter(name)));
            }
        }

        @Override
        public void left(String name) {
            Deque<Open> open = threads.get(Thread.currentThread());
            if (open == null) return;
            synchronized (open) {
                if (!open.isEmpty()) open.pop().annotation.close();
            }
        }

        /** The name of this thread's range that was opened last, or null. */
        String innermost(Thread thread) {
            Deque<Open> open = threads.get(thread);
            if (open == null) return null;
            synchronized (open) {
                return open.isEmpty() ? null : open.peek().name;
            }
        }

        /** Ends what is open, since it must not outlive the recording, and says what it was. */
        List<String> endAll() {
            ended = true;
            List<String> names = new ArrayList<>();
            threads.forEach((thread, open) -> {
                synchronized (open) {
                    while (!open.isEmpty()) {
                        Open last = open.pop();
                        last.annotation.close();
                        names.add("'" + last.name + "' on thread " + thread.getName());
                    }
                }
            });
            return names;
        }
    }
}
