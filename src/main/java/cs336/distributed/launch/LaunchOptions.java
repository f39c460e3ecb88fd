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
 * The options of a command whose work is done on several ranks: who starts them, on how many nodes, and how long they
 * wait.
 */
public class LaunchOptions {
    @Option(
            names = "--join",
            description = "be one of the ranks that srun or torchrun started; --processes is not read")
    private boolean join;

    @Option(
            names = "--emulate-nodes",
            paramLabel = "<n>",
            description = "let NCCL take the cards of this machine for those of n machines, joined by sockets")
    private Integer emulatedNodes;

    @Mixin
    private final TimeoutOptions timeouts = new TimeoutOptions();

    /**
     * Checks these options.
     *
     * @param processes the numbers of ranks that will be started
     * @throws IllegalArgumentException if an option is wrong
     */
    public void check(List<Integer> processes) {
        processes.forEach(n -> ArgumentCheck.atLeast("--processes", 1, n));
        timeouts.check();
        if (emulatedNodes == null) return;
        ArgumentCheck.atLeast("--emulate-nodes", 2, emulatedNodes);
        if (join) throw new IllegalArgumentException("--emulate-nodes cannot go with --join: the nodes are real there");
        for (int n : processes) {
            if (n % emulatedNodes != 0) {
                throw new IllegalArgumentException(
                        "--processes must be divisible by --emulate-nodes " + emulatedNodes + ", not " + n);
            }
        }
    }

    /** Whether this process is one of the ranks, which others have started. */
    public boolean joins() {
        return join;
    }

    /** Whether this process tells the user what came out. */
    public boolean reports() {
        return !join || World.fromEnvironment().rank() == 0;
    }

    /** How many machines take part, or pose as such. */
    public int nodes() {
        if (join) {
            return World.fromEnvironment().nodes();
        }
        return emulatesNodes() ? emulatedNodes : 1;
    }

    /** Whether the cards of one machine pose as those of several. */
    public boolean emulatesNodes() {
        return emulatedNodes != null;
    }

    /**
     * Starts ranks, or joins those that there are.
     *
     * @param processes how many to start
     * @param device {@code best}, {@code cpu} or {@code cuda}
     * @throws IllegalArgumentException if it is another, NCCL is to run on a machine without cards, or another backend
     *     over emulated nodes
     */
    public Launcher launcher(int processes, CollectiveBackend backend, String device) {
        Launcher launcher = join ? Launcher.joining(World.fromEnvironment()) : Launcher.of(processes);
        if (emulatesNodes()) {
            if (backend != CollectiveBackend.NCCL) {
                throw new IllegalArgumentException("--emulate-nodes needs --backend nccl, not " + backend
                        + ", which takes the same way between processes of one machine as of several");
            }
            launcher.environment(EmulatedNodes.environment(emulatedNodes, processes));
        }
        if (!join) requireCards(backend);
        launcher.backend(backend);
        timeouts.apply(launcher);
        return switch (forAllRanks(device)) {
            case "cpu" -> launcher.device(DeviceKind.CPU);
            case "cuda" -> launcher.device(DeviceKind.CUDA);
            default -> launcher;
        };
    }

    /** Says at once, not on each rank, that NCCL has no card to run on. */
    static void requireCards(CollectiveBackend backend) {
        if (backend == CollectiveBackend.NCCL) Device.cuda(0);
    }

    /**
     * A device that every rank can have.
     *
     * @throws IllegalArgumentException if it is not {@code best}, {@code cpu} or {@code cuda}
     */
    public static String forAllRanks(String device) {
        if (List.of("best", "cpu", "cuda").contains(device)) return device;
        throw new IllegalArgumentException(
                "device must be best, cpu or cuda, since each rank has a card of its own, not '" + device + "'");
    }
}
