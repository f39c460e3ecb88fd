package cs336.profile;

import cs336.torch.AllocatorReports;
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
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * A recorder of the operators, ranges, kernels and copies of a program. It uses PyTorch's profiler, Kineto.
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
 * <p>Each {@link ProfilerRange} that is opened during the recording, on any thread, becomes a named range of the trace;
 * modules open their ranges themselves. In the trace a name has {@code ?} in place of characters that are not ASCII,
 * and {@code '}, {@code /} and spaces in place of double quotes, backslashes and control characters. Only one profiler
 * can run at a time. It must be stopped on the thread that started it.
 *
 * <p>Profiling overhead is 2 to 3 µs of host time per event (operator, range or CUDA API call). It slows down
 * launch-bound steps most: on an H200 a training step of the small model at context 128 took 74 ms instead of 48 ms,
 * and 56 ms with {@link ProfilerOptions#withoutOperators}. A GPU-bound step of the large model at context 512 took 1.1
 * % longer, and 0.7 % without operators. The duration of kernels does not change. The test program {@code ProfilerCost}
 * repeats this measurement; {@link RangeCost} measures ranges without a profiler.
 */
public final class Profiler implements AutoCloseable {
    private static final AtomicReference<Profiler> RUNNING = new AtomicReference<>();

    private final ProfilerOptions options;
    private final Thread starter = Thread.currentThread();
    private final Annotations annotations = new Annotations();
    private UserAnnotation step;
    private int steps;
    private Profile profile;
    private Path file; // of the recording, before it is read
    private RuntimeException failure;
    private boolean stopped;

    /** Discards the recording when the process exits, because PyTorch's exit code crashes while its profiler runs. */
    private final Thread discard = new Thread(() -> {
        Kineto.stop(file);
        deleteFile();
    });

    private Profiler(ProfilerOptions options) {
        this.options = options;
    }

    /** Starts recording with {@link ProfilerOptions#standard}. */
    public static Profiler start() {
        return start(ProfilerOptions.standard());
    }

    /**
     * Starts recording.
     *
     * @throws IllegalStateException if another profiler or a memory recording is running
     * @throws UncheckedIOException if no temporary file can be created
     */
    public static Profiler start(ProfilerOptions options) {
        Objects.requireNonNull(options, "options must not be null");
        if (AllocatorReports.isListening()) {
            throw new IllegalStateException(
                    "memory is being recorded; stop that recording first, or start it after the profiler");
        }
        var profiler = new Profiler(options);
        if (!RUNNING.compareAndSet(null, profiler)) {
            throw new IllegalStateException("a profiler is already running, started on thread "
                    + RUNNING.get().starter.getName() + "; stop it first, PyTorch supports only one");
        }
        try {
            profiler.file = Files.createTempFile("profile", ".json"); // now, because a recording cannot be discarded
            if (Kineto.isRunning()) {
                throw new IllegalStateException(
                        "PyTorch's profiler is already running, started by other code; stop it first");
            }
            profiler.synchronize(); // so that earlier GPU work is not recorded
            Kineto.start(new Kineto.Settings(options.cuda(), options.operators(), options.shapes(), options.memory()));
            if (!options.memory()) { // such a recording can only be stopped on the thread that started it
                Runtime.getRuntime().addShutdownHook(profiler.discard);
            }
            profiler.step = UserAnnotation.enter(HostEvent.step(0));
            ProfilerRange.addListener(profiler.annotations);
        } catch (IOException e) {
            RUNNING.set(null);
            throw new UncheckedIOException("no temporary file can be created for the recording", e);
        } catch (RuntimeException | Error e) {
            RUNNING.set(null);
            profiler.deleteFile();
            throw e;
        }
        return profiler;
    }

    /**
     * Ends the current step and starts the next one. Steps are numbered from 0; step 0 starts with the profiler. Events
     * after the last call form a further step, unless there are none.
     *
     * @throws IllegalStateException if the profiler is stopped, this is not the thread that started it, or a range is
     *     open on it
     */
    public void step() {
        requireStarter("step");
        if (stopped) {
            throw new IllegalStateException("step() was called after the profiler was stopped");
        }
        String open = annotations.innermost(starter);
        if (open != null) {
            throw new IllegalStateException("step() was called inside the range '" + open + "'; close it first");
        }
        step.close();
        steps++;
        step = UserAnnotation.enter(HostEvent.step(steps));
    }

    /**
     * Synchronizes with the GPUs and stops recording.
     *
     * @return the recording
     * @throws IllegalStateException if the profiler is already stopped, this is not the thread that started it, ranges
     *     were left open, or nothing was recorded
     * @throws java.io.UncheckedIOException if the temporary file of the recording cannot be written or read
     */
    public Profile stop() {
        requireStarter("stop");
        if (stopped) {
            throw new IllegalStateException("the profiler is already stopped; profile() returns its recording");
        }
        finish();
        return profile();
    }

    /**
     * Stops recording unless {@link #stop} already did.
     *
     * @throws IllegalStateException if this is not the thread that started the profiler
     */
    @Override
    public void close() {
        if (stopped) {
            return;
        }
        requireStarter("close");
        finish();
    }

    /**
     * Returns the recording.
     *
     * @throws IllegalStateException if the profiler is still running, ranges were left open when it stopped, or nothing
     *     was recorded
     */
    public Profile profile() {
        if (!stopped) {
            throw new IllegalStateException("the profiler is still running; call stop() first");
        }
        if (failure != null) {
            throw failure;
        }
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
        if (options.cuda()) {
            torch_cuda.device_synchronize();
        }
    }

    private void finish() {
        stopped = true;
        ProfilerRange.removeListener(annotations);
        List<String> open = annotations.endAll();
        step.close();
        try {
            Runtime.getRuntime().removeShutdownHook(discard);
            synchronize();
            Kineto.stop(file);
            Trace trace = recorded().withoutEmptyLastStep();
            profile = new Profile(trace);
            if (!open.isEmpty()) {
                failure = new IllegalStateException("ranges were left open when the profiler stopped: "
                        + String.join(", ", open) + "; close them first");
            } else if (trace.isEmpty()) {
                failure = new IllegalStateException(
                        "nothing was recorded: no operator ran while the profiler was running");
            }
        } catch (IOException e) {
            failure = new UncheckedIOException("the recording could not be written to a temporary file", e);
            throw failure;
        } catch (RuntimeException e) {
            failure = e;
            throw e;
        } finally {
            RUNNING.set(null);
            deleteFile();
        }
    }

    /** Reads the recording. Kineto prints its errors, and leaves an incomplete file. */
    private Trace recorded() throws IOException {
        try {
            return Trace.read(file);
        } catch (IllegalArgumentException e) {
            throw new IOException(file + " is incomplete; the disk may be full", e);
        }
    }

    private void deleteFile() {
        try {
            if (file != null) {
                Files.deleteIfExists(file);
                Files.deleteIfExists(Path.of(file + ".tmp")); // Kineto's name for it until it is complete
            }
        } catch (IOException e) {
            file.toFile().deleteOnExit();
        }
    }

    /** A listener that adds the ranges of the program to the recording. */
    private static final class Annotations implements RangeListener {
        private record OpenRange(String name, UserAnnotation annotation) {}

        private final Map<Thread, Deque<OpenRange>> threads = new ConcurrentHashMap<>();
        private volatile boolean ended;

        @Override
        public void entered(String name) {
            Deque<OpenRange> open = threads.computeIfAbsent(Thread.currentThread(), t -> new ArrayDeque<>());
            synchronized (open) {
                if (!ended) {
                    open.push(new OpenRange(name, UserAnnotation.enter(name)));
                }
            }
        }

        @Override
        public void left(String name) {
            Deque<OpenRange> open = threads.get(Thread.currentThread());
            if (open == null) {
                return;
            }
            synchronized (open) {
                if (!open.isEmpty()) {
                    open.pop().annotation.close();
                }
            }
        }

        /** Returns the name of the innermost open range of a thread, or null. */
        String innermost(Thread thread) {
            Deque<OpenRange> open = threads.get(thread);
            if (open == null) {
                return null;
            }
            synchronized (open) {
                return open.isEmpty() ? null : open.peek().name;
            }
        }

        /** Closes all open ranges, which must not outlive the recording, and returns their names and threads. */
        List<String> endAll() {
            ended = true;
            List<String> names = new ArrayList<>();
            threads.forEach((thread, open) -> {
                synchronized (open) {
                    while (!open.isEmpty()) {
                        OpenRange last = open.pop();
                        last.annotation.close();
                        names.add("'" + last.name + "' on thread " + thread.getName());
                    }
                }
            });
            return names;
        }
    }
}
