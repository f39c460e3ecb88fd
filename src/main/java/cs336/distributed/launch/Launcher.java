package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.RankWatch;
import cs336.distributed.collectives.Rendezvous;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.Serialization;
import cs336.distributed.collectives.World;
import cs336.torch.DeviceKind;
import cs336.torch.Torch;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntFunction;
import java.util.stream.Collectors;

/**
 * A launcher that runs a program on several ranks and returns the value of each.
 *
 * <pre>{@code
 * List<Double> means = Launcher.of(4).run(MeanOfRanks.class, 1000);
 * }</pre>
 *
 * <p>{@link #of} starts one JVM per rank on this machine and prefixes their output with the rank. These ranks
 * rendezvous through a file that only this user can read, and connect through the loopback interface. {@link #joining}
 * makes this process one of the ranks that {@code srun} or {@code torchrun} started. The program is the same in both
 * cases.
 *
 * <p>When a rank fails, exits or stops responding, all ranks end within the {@link #timeout} plus five seconds; before
 * all native libraries are loaded, within the {@link #loadingTimeout}. Ranks that joined take up to eight seconds more
 * to agree which of them failed first. Each failed run leaves an error file; see {@link RankFailure#report}. When this
 * JVM ends for any reason, its ranks end too, even if they are stopped.
 */
public final class Launcher {
    /** The largest number of ranks that one machine may start. */
    public static final int MOST_PROCESSES = 128;

    static final int DEFAULT_TIMEOUT_S = 60;
    static final int DEFAULT_LOADING_TIMEOUT_S = 600;
    private static final int TOKEN_BYTES = 16;
    private static final String NCCL_INTERFACE = "NCCL_SOCKET_IFNAME";
    private static final String RESOLVER = "RES_OPTIONS"; // see resolv.conf(5)

    private final int processes;
    private final World world; // null if this launcher starts the ranks
    private CollectiveBackend backend = CollectiveBackend.GLOO;
    private DeviceKind device;
    private Duration timeout = Duration.ofSeconds(DEFAULT_TIMEOUT_S);
    private Duration loadingTimeout = Duration.ofSeconds(DEFAULT_LOADING_TIMEOUT_S);
    private int threads;
    private PrintStream output = System.out;
    private String classPath = "";
    private int maxRestarts;
    private IntFunction<Map<String, String>> environment = rank -> Map.of();

    private Launcher(int processes, World world) {
        this.processes = processes;
        this.world = world;
        threads = Math.max(1, Runtime.getRuntime().availableProcessors() / processes);
    }

    /**
     * Returns a launcher that starts ranks on this machine.
     *
     * @param processes number of ranks, from 1 to {@value #MOST_PROCESSES}
     */
    public static Launcher of(int processes) {
        return new Launcher(requireProcesses("processes", processes), null);
    }

    /** Checks a number of processes on this machine; each takes hundreds of megabytes. */
    static int requireProcesses(String name, int processes) {
        return ArgumentCheck.between(name, 1, MOST_PROCESSES, processes);
    }

    /**
     * Returns a launcher that runs one rank in this process; the other ranks do the same in their processes. A rank of
     * srun has as many threads as its task has CPUs, if {@code SLURM_CPUS_PER_TASK} is set. The launcher starts no
     * process, so {@link #loadingTimeout}, {@link #output}, {@link #environment}, {@link #maxRestarts} and
     * {@link #classPath} have no effect.
     */
    public static Launcher joining(World world) {
        var launcher = new Launcher(world.localSize(), world);
        // Ranks of torchrun, which have a LOCAL_RANK, share the CPUs of a task.
        String own = System.getenv("LOCAL_RANK") == null ? System.getenv("SLURM_CPUS_PER_TASK") : null;
        if (own != null && own.matches("[1-9]\\d{0,5}")) {
            // Slurm may show each rank its own cores only.
            launcher.threads = Math.min(Integer.parseInt(own), Torch.MOST_THREADS);
        }
        return launcher;
    }

    /** Returns the number of ranks on this machine. */
    public int processes() {
        return processes;
    }

    /** Sets the library for collectives; Gloo by default. */
    public Launcher backend(CollectiveBackend library) {
        backend = Objects.requireNonNull(library, "library must not be null");
        return this;
    }

    /**
     * Sets the kind of device: by default CUDA for NCCL, which requires it, and the CPU for Gloo. With Gloo several
     * ranks may share a GPU.
     */
    public Launcher device(DeviceKind kind) {
        device = Objects.requireNonNull(kind, "kind must not be null");
        return this;
    }

    /**
     * Sets the timeout of the rendezvous and of each collective, 60 seconds by default. A rank may compute for longer
     * while no other rank waits for it; only a process without a heartbeat, which does not depend on the computation,
     * is ended after this time. The timeout starts when all ranks have loaded their native libraries. Gloo and c10d's
     * watchdog count the time in which all ranks are stopped, as by Ctrl-Z, as time in a collective; it does not count
     * as time without a heartbeat.
     *
     * @throws IllegalArgumentException if it is below 1 ms
     */
    public Launcher timeout(Duration longest) {
        Objects.requireNonNull(longest, "longest must not be null");
        timeout = requirePositive("timeout", longest);
        return this;
    }

    /**
     * Sets the time for loading native libraries, from the start of the processes; ten minutes by default. Loading
     * takes seconds, but on first use one rank unpacks gigabytes while the others wait. Output of a rank does not
     * extend this time. Ranks that {@link #joining join} load their libraries before the rendezvous, which has the
     * {@link #timeout}.
     *
     * @throws IllegalArgumentException if it is below 1 ms
     */
    public Launcher loadingTimeout(Duration longest) {
        Objects.requireNonNull(longest, "longest must not be null");
        loadingTimeout = requirePositive("loading timeout", longest);
        return this;
    }

    private static Duration requirePositive(String name, Duration duration) {
        if (duration.toMillis() >= 1) {
            return duration;
        }
        throw new IllegalArgumentException(name + " must be at least 1 ms, not " + duration);
    }

    /**
     * Sets the number of CPU threads per operation on each rank, from 1 to {@value Torch#MOST_THREADS}; by default the
     * processors divided by the ranks.
     */
    public Launcher threads(int perRank) {
        threads = requireThreads("threads", perRank);
        return this;
    }

    /** Checks a number of threads of each rank. */
    static int requireThreads(String name, int perRank) {
        return ArgumentCheck.between(name, 1, Torch.MOST_THREADS, perRank);
    }

    /** Sets the stream for the output of the ranks, as in {@code [2] loss 3.1}; standard output by default. */
    public Launcher output(PrintStream to) {
        output = Objects.requireNonNull(to, "to must not be null");
        return this;
    }

    /** Sets environment variables of each rank, in addition to those of this process. */
    public Launcher environment(IntFunction<Map<String, String>> byRank) {
        environment = byRank;
        return this;
    }

    /**
     * Sets the number of times that all started ranks are restarted after one of them has failed, at least 0; 0 by
     * default. A program finds the number of restarts in {@link World#restarts}, and continues from its last
     * checkpoint.
     */
    public Launcher maxRestarts(int restarts) {
        maxRestarts = ArgumentCheck.atLeast("restarts", 0, restarts);
        return this;
    }

    /** Sets folders and JAR files in which started ranks look for classes after the class path of this process. */
    public Launcher classPath(List<Path> more) {
        classPath = more.stream()
                .map(entry -> entry.toAbsolutePath().toString())
                .collect(Collectors.joining(File.pathSeparator));
        return this;
    }

    /**
     * Runs the program on all ranks.
     *
     * @return the value of each rank, in the order of ranks
     * @throws RankFailure if a rank failed and no restart is left; no rank keeps running
     * @throws IllegalArgumentException if the program or the argument cannot be sent to another process
     * @throws UncheckedIOException if the process of a rank cannot be started
     */
    public <A extends Serializable, R extends Serializable> List<R> run(
            Class<? extends RankProgram<A, R>> program, A argument) throws InterruptedException {
        requirePublic(program);
        if (world != null) {
            return join(program, argument);
        }
        for (int restart = 0; ; restart++) {
            try {
                return start(program, argument, restart);
            } catch (RankFailure e) {
                if (restart == maxRestarts) {
                    throw e;
                }
                String reason = e.getMessage().lines().findFirst().orElse("");
                String report = e.report() == null ? "" : "; the last collectives are in " + e.report();
                System.err.printf("cs336: %s%s; restart %d of %d%n", reason, report, restart + 1, maxRestarts);
            }
        }
    }

    private RankWorker.Job job(Class<?> program, Serializable argument, String store) {
        return new RankWorker.Job(program.getName(), argument, backend, deviceKind(), timeout, threads, store);
    }

    /** Returns the kind of device of the ranks, see {@link #device}. */
    public DeviceKind deviceKind() {
        return device == null ? backend.defaultDevice() : device;
    }

    /** Checks that another process can create the program. */
    static void requirePublic(Class<?> program) {
        String name = program.getName();
        if (program.isHidden() || name.startsWith("REPL.")) {
            throw new IllegalArgumentException("program " + name
                    + " must be a class on the class path; other processes cannot load classes of a notebook");
        }
        try {
            boolean isPublic = Modifier.isPublic(program.getModifiers());
            if (isPublic && Modifier.isPublic(program.getDeclaredConstructor().getModifiers())) {
                return;
            }
        } catch (NoSuchMethodException e) {
            // Reported below.
        }
        throw new IllegalArgumentException(
                "program " + name + " must be a public class with a public no-argument constructor");
    }

    private <R extends Serializable> List<R> start(Class<?> program, Serializable argument, int restart)
            throws InterruptedException {
        try (var folder = new PrivateFolder();
                var port = ReservedPort.any();
                var ranks = new RankProcesses(processes, timeout, loadingTimeout, output)) {
            String line = Serialization.line(
                    job(program, argument, folder.file("store").toString()));
            String token = randomToken();
            for (int rank = 0; rank < processes; rank++) {
                start(ranks, rank, variables(rank, port.number(), token, restart));
            }
            return ranks.run(line);
        } catch (IOException e) {
            throw new UncheckedIOException("the folder for the rendezvous could not be created", e);
        }
    }

    private static void start(RankProcesses ranks, int rank, Map<String, String> variables) {
        try {
            ranks.start(variables);
        } catch (IOException e) {
            throw new UncheckedIOException("the process of rank " + rank + " could not be started", e);
        }
    }

    private static String randomToken() {
        byte[] bytes = new byte[TOKEN_BYTES];
        new SecureRandom().nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    /**
     * Returns defaults of variables that the user has not set. RES_OPTIONS limits a name lookup to one second instead
     * of five: c10d resolves each address that it connects to, even 127.0.0.1, and a missing name server could exceed
     * the timeout. NCCL_SOCKET_IFNAME keeps NCCL off the network.
     *
     * @param given the variables that the user has set
     */
    static Map<String, String> unlessSet(Map<String, String> given) {
        var defaults = new HashMap<>(Map.of(RESOLVER, "timeout:1", NCCL_INTERFACE, "lo"));
        defaults.keySet().removeAll(given.keySet());
        return defaults;
    }

    /** Returns the variables of torchrun, and some more. OMP_NUM_THREADS must be set before OpenMP is loaded. */
    private Map<String, String> variables(int rank, int port, String token, int restart) {
        var variables = new HashMap<String, String>();
        variables.put("OMP_NUM_THREADS", String.valueOf(threads));
        variables.putAll(unlessSet(System.getenv()));
        variables.putAll(environment.apply(rank));
        variables.put("CLASSPATH", classPath);
        variables.put(Rendezvous.TOKEN, token);
        variables.put(World.RESTARTS, String.valueOf(restart));
        variables.put("RANK", String.valueOf(rank));
        variables.put("WORLD_SIZE", String.valueOf(processes));
        variables.put("LOCAL_RANK", String.valueOf(rank));
        variables.put("LOCAL_WORLD_SIZE", String.valueOf(processes));
        variables.put("GROUP_WORLD_SIZE", "1");
        variables.put("MASTER_ADDR", "127.0.0.1");
        variables.put("MASTER_PORT", String.valueOf(port));
        return variables;
    }

    private <A extends Serializable, R extends Serializable> List<R> join(
            Class<? extends RankProgram<A, R>> program, A argument) throws InterruptedException {
        MemoryReserve.hold();
        Torch.load();
        Torch.setThreads(threads);
        Thread main = Thread.currentThread();
        ProcessGroup group = null;
        RankWatch watch = null;
        try {
            RankProgram<A, R> created = program.getDeclaredConstructor().newInstance();
            ProcessGroup joined = ProcessGroup.join(world, backend, deviceKind(), timeout);
            group = joined;
            watch = joined.watch(() -> RankWorker.location(joined, main));
            return RankWorker.<A, R, List<R>>run(created, argument, joined, (all, value) -> all.allGather(value));
        } catch (Throwable e) { // errors too, since a normal exit of this process would wait for the other ranks
            boolean isInterrupted = Thread.interrupted(); // would end the report
            try {
                RankWorker.Failed failed = RankWorker.Failed.of(e, group);
                RankWatch.FirstFailure first =
                        watch == null ? null : watch.report(failed.reason(), failed.amongRanks());
                throw RankFailure.here(world, failed, first);
            } finally {
                if (isInterrupted) {
                    main.interrupt();
                }
            }
        }
    }
}
