package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.World;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.util.List;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/**
 * The options of a command that runs on several ranks: the start of the ranks, the number of nodes, and the timeouts.
 */
public class LaunchOptions {
    @Option(
            names = "--join",
            description =
                    "run as one of the ranks that srun or torchrun started; ignores --processes; the exit code is 3"
                            + " if this rank lost contact with the others")
    private boolean join;

    @Option(
            names = "--emulate-nodes",
            paramLabel = "<n>",
            description = "make NCCL treat the GPUs of this machine as those of n machines, connected by sockets; with"
                    + " gloo only for --mode hsdp of fsdp")
    private Integer emulatedNodes;

    @Mixin
    private final TimeoutOptions timeouts = new TimeoutOptions();

    /**
     * Checks these options.
     *
     * @param processes the numbers of ranks to start
     * @throws IllegalArgumentException if an option is invalid
     */
    public void check(List<Integer> processes) {
        processes.forEach(n -> Launcher.requireProcesses("--processes", n));
        timeouts.check();
        if (emulatedNodes == null) {
            return;
        }
        ArgumentCheck.atLeast("--emulate-nodes", 2, emulatedNodes);
        if (join) {
            throw new IllegalArgumentException("--emulate-nodes cannot be combined with --join, whose nodes are real");
        }
        for (int n : processes) {
            if (n % emulatedNodes != 0) {
                throw new IllegalArgumentException(
                        "--processes must be divisible by --emulate-nodes " + emulatedNodes + ", not " + n);
            }
        }
    }

    /** Returns whether this process is one of the ranks that srun or torchrun started. */
    public boolean joins() {
        return join;
    }

    /** Returns whether this process is a rank that torchrun has started again after a failure. */
    public boolean isRestarted() {
        return join && World.restarts() > 0;
    }

    /** Returns whether this process prints the results. */
    public boolean reports() {
        return !join || World.fromEnvironment().rank() == 0;
    }

    /** Returns the number of machines, real or emulated. */
    public int nodes() {
        if (join) {
            return World.fromEnvironment().nodes();
        }
        return emulatesNodes() ? emulatedNodes : 1;
    }

    /** Returns whether one machine emulates several. */
    public boolean emulatesNodes() {
        return emulatedNodes != null;
    }

    /**
     * Returns a launcher that starts ranks, or joins those of srun or torchrun.
     *
     * @param processes number of ranks to start
     * @param device {@code best}, {@code cpu} or {@code cuda}
     * @throws IllegalArgumentException if the device has another name, this machine has fewer GPUs than NCCL ranks to
     *     start, or nodes are emulated without NCCL
     */
    public Launcher launcher(int processes, CollectiveBackend backend, String device) {
        if (emulatesNodes() && backend != CollectiveBackend.NCCL) {
            throw new IllegalArgumentException(
                    "--emulate-nodes needs --backend nccl, not " + backend + ", which always uses sockets");
        }
        return launcherOfNodes(processes, backend, device);
    }

    /** Returns the launcher also if nodes are emulated without NCCL, for programs that distinguish nodes themselves. */
    Launcher launcherOfNodes(int processes, CollectiveBackend backend, String device) {
        Launcher launcher = join ? Launcher.joining(World.fromEnvironment()) : Launcher.of(processes);
        if (emulatesNodes()) {
            launcher.environment(EmulatedNodes.environment(emulatedNodes, processes));
        }
        if (!join) {
            requireGpus(backend, processes);
        }
        launcher.backend(backend);
        timeouts.apply(launcher);
        return switch (forAllRanks(device)) {
            case "cpu" -> launcher.device(DeviceKind.CPU);
            case "cuda" -> launcher.device(DeviceKind.CUDA);
            default -> launcher;
        };
    }

    /** Checks for NCCL that this machine has a GPU for each rank, before any rank starts. */
    static void requireGpus(CollectiveBackend backend, int processes) {
        if (backend != CollectiveBackend.NCCL) {
            return;
        }
        Device.cuda(0);
        int gpus = Device.cudaCount();
        if (processes > gpus) {
            throw new IllegalArgumentException("--backend nccl needs a GPU for each rank: --processes is " + processes
                    + ", and this machine has " + gpus + ". With --backend gloo --device cuda ranks share a GPU");
        }
    }

    /**
     * Checks the name of a device that every rank can use, and returns it.
     *
     * @throws IllegalArgumentException if it is not {@code best}, {@code cpu} or {@code cuda}
     */
    public static String forAllRanks(String device) {
        if (List.of("best", "cpu", "cuda").contains(device)) {
            return device;
        }
        throw new IllegalArgumentException(
                "--device must be best, cpu or cuda (each rank selects its own GPU), not '" + device + "'");
    }
}
