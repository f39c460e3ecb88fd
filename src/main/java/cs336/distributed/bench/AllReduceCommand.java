package cs336.distributed.bench;

import static cs336.units.UnitFactors.GB;
import static cs336.units.UnitFactors.MB;

import cs336.bench.AlignedText;
import cs336.bench.LabCommand;
import cs336.bench.StorageOptions;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.World;
import cs336.distributed.launch.LaunchOptions;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.training.Strategy;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.MemoryStats;
import cs336.units.HostLoad;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code allreduce}: runs the course's communication benchmark. */
@Command(
        name = "allreduce",
        description = {
            "Times all-reduces of float32 tensors by size, number of processes and backend.",
            "Each combination of backend and number of processes measures all sizes in order and stores each one before"
                    + " the next. If interrupted, repeat the command line: stored sizes are skipped. 1 MB is 10^6 bytes."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  Two processes on any laptop, in seconds:",
            "    ./cs336 allreduce --megabytes 0.512,1,10",
            "  All sizes of the course, on the CPU and on the GPUs of one machine:",
            "    ./cs336 allreduce --device cpu --processes 2,4,6 --full",
            "    ./cs336 allreduce --device cuda --backend gloo,nccl --processes 2,4 --full",
            "  Two GPUs treated as two nodes, so that NCCL uses sockets:",
            "    ./cs336 allreduce --device cuda --processes 2 --emulate-nodes 2 --problem distributed_communication_multi_node",
            "  As one of the ranks that Slurm starts, one per task:",
            "    srun ./cs336 allreduce --device cpu --join --problem distributed_communication_multi_node",
            "",
            "Exit codes: 0 all measured, 1 a rank failed, 2 invalid arguments."
        })
public final class AllReduceCommand extends LabCommand {
    private static final List<String> MEGABYTES = List.of("0.512", "1", "10");
    private static final List<String> FULL_MEGABYTES = List.of("0.512", "1", "10", "50", "100", "500", "1000");
    private static final int MEGA = 6; // decimal places between bytes and MB

    @Option(
            names = "--backend",
            split = ",",
            paramLabel = "<backend>",
            description = "gloo (CPU or GPU), nccl (GPU). Default: nccl on GPUs, gloo on the CPU")
    private List<String> backends;

    @Option(
            names = "--processes",
            split = ",",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "numbers of ranks to start on this machine, 1 to " + Launcher.MOST_PROCESSES)
    private List<Integer> processes;

    @Mixin
    private final LaunchOptions launch = new LaunchOptions();

    @Option(
            names = "--megabytes",
            split = ",",
            paramLabel = "<MB>",
            description =
                    "sizes of the tensor on each rank in MB (10^6 bytes), each a multiple of 4 bytes. Default: 0.512,1,10")
    private List<String> megabytes;

    @Option(names = "--full", description = "all sizes of the course in MB: 0.512,1,10,50,100,500,1000")
    private boolean full;

    @Option(
            names = "--warmup",
            defaultValue = "5",
            paramLabel = "<n>",
            description = "untimed steps of each size, at least " + AllReducePlan.LEAST_WARMUP)
    private int warmup;

    @Option(
            names = "--steps",
            defaultValue = "20",
            paramLabel = "<n>",
            description = "timed steps of each size, at least " + AllReduceBenchmark.LEAST_STEPS)
    private int steps;

    @Option(
            names = "--seconds",
            defaultValue = "10",
            paramLabel = "<seconds>",
            description = "approximate time limit for the steps of one size, above 0; at least "
                    + AllReduceBenchmark.LEAST_STEPS + " steps are run")
    private double seconds;

    @Mixin
    private final StorageOptions storage = new StorageOptions("distributed_communication_single_node");

    @Override
    public Integer call() throws IOException, InterruptedException {
        DeviceKind kind = checked(
                () -> Device.parse(LaunchOptions.forAllRanks(storage.device())).kind());
        List<CollectiveBackend> chosen = checked(() -> backends(kind));
        AllReducePlan plan = checked(() -> plan(kind));
        if (launch.joins()) {
            run(0, chosen.get(0), kind, plan);
            return 0;
        }
        int exitCode = 0;
        for (CollectiveBackend backend : chosen) {
            for (int n : processes) {
                try {
                    run(n, backend, kind, plan);
                } catch (RankFailure e) {
                    System.err.println("cs336: " + e.getMessage());
                    if (e.report() != null) {
                        System.err.println("cs336: the last collectives are in " + e.report());
                    }
                    exitCode = 1;
                }
            }
        }
        return exitCode;
    }

    private void run(int n, CollectiveBackend backend, DeviceKind kind, AllReducePlan plan)
            throws IOException, InterruptedException {
        Launcher launcher = checked(() -> launch.launcher(n, backend, storage.device()));
        if (launch.reports() && checked(() -> measures(n, backend, kind, plan))) {
            HostLoad.check();
        }
        List<AllReduceTimes> times = launcher.device(kind)
                .threads(1) // nothing is computed
                .output(System.err)
                .run(AllReduceRank.class, plan)
                .get(0);
        if (launch.reports() && !times.isEmpty()) {
            List<AllReduceRow> rows = times.stream()
                    .map(each -> AllReduceRow.of(backend, kind, each))
                    .toList();
            out().println(AlignedText.of(Tables.of(AllReduceRow.class, rows)));
            out().flush();
        }
    }

    /** Returns whether sizes of the plan are not stored yet. */
    private boolean measures(int n, CollectiveBackend backend, DeviceKind kind, AllReducePlan plan) throws IOException {
        MeasurementStore store = MeasurementStore.of(plan.storage(), new Device(kind, 0), Device.cudaCount());
        int ranks = launch.joins() ? World.fromEnvironment().size() : n;
        return !store.lacking(AllReduceRank.cases(plan, backend, kind, launch.nodes(), ranks))
                .isEmpty();
    }

    private List<CollectiveBackend> backends(DeviceKind kind) {
        boolean gpus = kind == DeviceKind.CUDA;
        List<String> names = backends == null ? List.of(gpus ? "nccl" : "gloo") : backends;
        var chosen = new ArrayList<CollectiveBackend>();
        for (String name : names) {
            chosen.add(CollectiveBackend.parse(name));
        }
        if (!gpus && chosen.contains(CollectiveBackend.NCCL)) {
            if (!storage.device().equals("cpu")) {
                Device.cuda(0); // throws with the reason
            }
            throw new IllegalArgumentException("--backend nccl needs --device cuda, not " + storage.device());
        }
        if (launch.joins() && chosen.size() > 1) {
            throw new IllegalArgumentException(
                    "--backend must be a single one with --join, not " + String.join(",", names));
        }
        return chosen;
    }

    private AllReducePlan plan(DeviceKind kind) {
        storage.requireNames();
        launch.check(processes);
        AllReducePlan.requireInRange("--", warmup, steps, seconds);
        int ranks = launch.joins() ? World.fromEnvironment().localSize() : Collections.max(processes);
        if (full && megabytes != null) {
            throw new IllegalArgumentException("--full cannot be combined with --megabytes");
        }
        List<String> sizes = megabytes != null ? megabytes : full ? FULL_MEGABYTES : MEGABYTES;
        return new AllReducePlan(
                sizes.stream().map(size -> bytes(size, ranks, kind)).distinct().toList(),
                warmup,
                steps,
                seconds,
                launch.emulatesNodes() ? launch.nodes() : 0,
                MeasurementFile.of(storage));
    }

    /**
     * Returns the size of the tensor on each rank.
     *
     * @param ranks the largest number of ranks on this machine; on GPUs each has its own
     */
    private static long bytes(String megabytes, int ranks, DeviceKind kind) {
        try {
            BigDecimal size = new BigDecimal(megabytes);
            if (size.compareTo(BigDecimal.valueOf(Strategy.MOST_MB)) > 0) {
                throw new IllegalArgumentException(
                        "--megabytes must be at most " + Strategy.MOST_MB + ", not " + megabytes);
            }
            long bytes = size.movePointRight(MEGA).longValueExact();
            if (AllReducePlan.isSize(bytes)) {
                requireMemory(megabytes, bytes, kind == DeviceKind.CUDA ? 1 : ranks, kind);
                return bytes;
            }
        } catch (ArithmeticException | NumberFormatException e) {
            // reported below
        }
        throw new IllegalArgumentException(
                "--megabytes must be a positive multiple of 4 bytes in MB, such as 0.512, not " + megabytes);
    }

    private static void requireMemory(String megabytes, long bytes, int ranks, DeviceKind kind) {
        long total = MemoryStats.total(new Device(kind, 0));
        if (bytes > total / ranks) {
            throw new IllegalArgumentException(String.format(
                    Locale.ROOT,
                    "--megabytes %s on %s takes %,.0f MB, but %s has %,.0f MB of memory",
                    megabytes,
                    ranks == 1 ? "1 rank" : ranks + " ranks",
                    (double) bytes * ranks / MB,
                    kind == DeviceKind.CUDA ? "a GPU" : "this machine",
                    total / MB));
        }
    }

    /** A row of the table that the command prints. */
    private record AllReduceRow(
            String backend,
            @Header("device") String kind,
            int processes,
            @Header("size (MB)") double megabytes,
            @Header("samples") int n,
            @Header("median (ms)") double median,
            @Header("min (ms)") double min,
            @Header("max (ms)") double max,
            @Header("algorithm bandwidth (GB/s)") double algorithmBandwidth,
            @Header("bus bandwidth (GB/s)") double busBandwidth) {
        static AllReduceRow of(CollectiveBackend backend, DeviceKind kind, AllReduceTimes times) {
            return new AllReduceRow(
                    backend.toString(),
                    kind.toString(),
                    times.ranks(),
                    times.bytes() / MB,
                    times.summary().n(),
                    times.summary().median(),
                    times.summary().min(),
                    times.summary().max(),
                    times.algorithmBandwidth() / GB,
                    times.busBandwidth() / GB);
        }
    }
}
