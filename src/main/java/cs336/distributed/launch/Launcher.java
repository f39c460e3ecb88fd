package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.Serialization;
import cs336.distributed.collectives.World;
import cs336.torch.DeviceKind;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;

/**
 * Runs a program on several ranks and gathers what it gives on each.
 *
 * <pre>{@code
 * List<Double> means = Launcher.of(4).run(MeanOfRanks.class, 1000);
 * }</pre>
 *
 * <p>{@link #of} starts that many JVMs on this machine; what they print appears with their rank before it.
 * {@link #joining} makes this process one of the ranks that {@code srun} or {@code torchrun} has started. The program
 * cannot tell.
 *
 * <p>When a rank fails, dies or falls silent, all others are ended too, within the {@link #timeout} and five seconds
 * more, before their native libraries are loaded within the {@link #loadingTimeout}; when this JVM ends, in whatever
 * way, they end with it.
 */
public final class Launcher {
    static final int DEFAULT_TIMEOUT_S = 60;
    static final int DEFAULT_LOADING_TIMEOUT_S = 600;
    private static final String RESOLVER = "RES_OPTIONS"; // see resolv.conf(5)

    private final int processes;
    private final World world; // null where processes are started
    private CollectiveBackend backend = CollectiveBackend.GLOO;
    private DeviceKind device;
    private Duration timeout = Duration.ofSeconds(DEFAULT_TIMEOUT_S);
    private Duration loadingTimeout = Duration.ofSeconds(DEFAULT_LOADING_TIMEOUT_S);
    private int threads;
    private PrintStream output = System.out;
    private IntFunction<Map<String, String>> environment = rank -> Map.of();

    private Launcher(int processes, World world) {
        this.processes = processes;
        this.world = world;
        threads = Math.max(1, Runtime.getRuntime().availableProcessors() / processes);
    }

    /**
     * Starts ranks on this machine.
     *
     * @param processes how many
     */
    public static Launcher of(int processes) {
        return new Launcher(ArgumentCheck.atLeast("processes", 1, processes), null);
    }

    /** Takes part as one rank; the others do the same in processes of their own. */
    public static Launcher joining(World world) {
        return new Launcher(world.localSize(), world);
    }

    /** What carries the collectives; Gloo by default. */
    public Launcher backend(CollectiveBackend carrier) {
        backend = carrier;
        return this;
    }

    /**
     * Where ranks compute. By default with NCCL on cards, which it needs; with Gloo on the CPU. Ranks with Gloo share
     * cards where there are fewer.
     */
    public Launcher device(DeviceKind kind) {
        device = kind;
        return this;
    }

    /**
     * How long ranks wait for each other, on arrival and in each collective, and how long a rank may show no sign of
     * life: neither call a collective nor print a line. 60 seconds by default. It counts from when all ranks have
     * loaded their native libraries.
     */
    public Launcher timeout(Duration longest) {
        timeout = requirePositive("timeout", longest);
        return this;
    }

    /**
     * How long ranks may take to load their native libraries, from the start of their processes; what they print
     * meanwhile does not prolong it. Ten minutes by default: loading takes seconds, but the first time on a machine one
     * rank unpacks gigabytes, onto a disk that may be slow, and the others wait for it. Ranks that {@link #joining
     * join} load before they arrive, for which the others wait no longer than the {@link #timeout}.
     */
    public Launcher loadingTimeout(Duration longest) {
        loadingTimeout = requirePositive("loading timeout", longest);
        return this;
    }

    private static Duration requirePositive(String name, Duration duration) {
        if (duration.toMillis() >= 1) return duration;
        throw new IllegalArgumentException(name + " must be at least 1 ms, not " + duration);
    }

    /** How many threads one operation on the CPU may use on each rank; by default the processors are shared out. */
    public Launcher threads(int perRank) {
        threads = ArgumentCheck.atLeast("threads", 1, perRank);
        return this;
    }

    /** Where to print what ranks print, as in {@code [2] loss 3.1}; standard output by default. */
    public Launcher output(PrintStream to) {
        output = to;
        return this;
    }

    /** Environment variables of each rank's process, above those of this one. */
    public Launcher environment(IntFunction<Map<String, String>> byRank) {
        environment = byRank;
        return this;
    }

    /**
     * Runs the program on all ranks.
     *
     * @return what each gave, by rank
     * @throws RankFailure if one failed; then none is left running
     * @throws IllegalArgumentException if the program cannot be made in another process, or the argument cannot be sent
     *     there
     */
    public <A extends Serializable, R extends Serializable> List<R> run(
            Class<? extends RankProgram<A, R>> program, A argument) throws InterruptedException {
        requirePublic(program);
        var job = new RankWorker.Job(program.getName(), argument, backend, deviceKind(), timeout, threads);
        return world == null ? start(job) : join(job);
    }

    private DeviceKind deviceKind() {
        if (device != null) return device;
        return backend == CollectiveBackend.NCCL ? DeviceKind.CUDA : DeviceKind.CPU;
    }

    private static void requirePublic(Class<?> program) {
        String name = program.getName();
        if (program.isHidden() || name.startsWith("REPL.")) {
            throw new IllegalArgumentException("program " + name
                    + " must be a class on the class path: other processes do not have this notebook's");
        }
        try {
            boolean isPublic = Modifier.isPublic(program.getModifiers());
            if (isPublic && Modifier.isPublic(program.getDeclaredConstructor().getModifiers())) return;
        } catch (NoSuchMethodException e) {
            // Said below.
        }
        throw new IllegalArgumentException(
                "program " + name + " must be a public class with a public constructor without arguments");
    }

    private <R extends Serializable> List<R> start(RankWorker.Job job) throws InterruptedException {
        String line = Serialization.line(job);
        try (var port = ReservedPort.any();
                var ranks = new Ranks(processes, timeout, loadingTimeout, output)) {
            for (int rank = 0; rank < processes; rank++) ranks.start(variables(rank, port.number()));
            return ranks.run(line);
        } catch (IOException e) {
            throw new UncheckedIOException("a rank's process could not be started", e);
        }
    }

    /**
     * The variables of torchrun; how many threads OpenMP starts must be known before it is loaded. c10d asks for the
     * name of each address that it connects to, 127.0.0.1 too, and where the name server does not answer, C's resolver
     * waits for five seconds, which may be more than ranks wait for each other: here for one, unless the user has
     * chosen.
     */
    private Map<String, String> variables(int rank, int port) {
        var variables = new HashMap<String, String>();
        variables.put("OMP_NUM_THREADS", String.valueOf(threads));
        if (System.getenv(RESOLVER) == null) variables.put(RESOLVER, "timeout:1");
        variables.putAll(environment.apply(rank));
        variables.put("RANK", String.valueOf(rank));
        variables.put("WORLD_SIZE", String.valueOf(processes));
        variables.put("LOCAL_RANK", String.valueOf(rank));
        variables.put("LOCAL_WORLD_SIZE", String.valueOf(processes));
        variables.put("MASTER_ADDR", "127.0.0.1");
        variables.put("MASTER_PORT", String.valueOf(port));
        return variables;
    }

    private <R extends Serializable> List<R> join(RankWorker.Job job) {
        Torch.load();
        Torch.setThreads(threads);
        try {
            var group = ProcessGroup.join(world, backend, deviceKind(), timeout);
            return RankWorker.<R, List<R>>run(job, group, (all, value) -> all.allGather(value));
        } catch (Throwable e) { // an error too: after it, an orderly end of this process would wait for the others
            throw new RankFailure(world, RankWorker.Failed.of(e));
        }
    }
}
