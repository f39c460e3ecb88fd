package cs336.distributed.bench;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.StorageOptions;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.LaunchOptions;
import cs336.distributed.launch.RankFailure;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** Times all-reduces over size, number of processes and backend: the course's benchmark of communication. */
@Command(
        name = "allreduce",
        description = {
            "Times all-reduces of float32 tensors over size, number of processes and backend.",
            "Processes of one number and backend measure all sizes one after the other; each is stored before the next"
                    + " begins. Run the same line again to go on after a stop. 1 MB is 10^6 bytes."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  Two processes on any laptop, in seconds:",
            "    cs336 allreduce --megabytes 0.512,1,10",
            "  All sizes of the course, on the CPUs and on the cards of one machine:",
            "    cs336 allreduce --device cpu --processes 2,4,6 --full",
            "    cs336 allreduce --device cuda --backend gloo,nccl --processes 2,4 --full",
            "  Two cards as if they were in two machines: NCCL through sockets:",
            "    cs336 allreduce --device cuda --processes 2 --emulate-nodes 2 --problem distributed_communication_multi_node",
            "  As one of the ranks that Slurm starts, one a task:",
            "    srun cs336 allreduce --device cpu --join --problem distributed_communication_multi_node",
            "",
            "Exit codes: 0 all measured, 1 ranks failed, 2 wrong use."
        })
public final class AllReduceCommand implements Callable<Integer> {
    private static final List<String> MEGABYTES = List.of("0.512", "1", "10");
    private static final List<String> FULL_MEGABYTES = List.of("0.512", "1", "10", "50", "100", "500", "1000");
    private static final int MEGA = 6;
    private static final double MB = 1e6;
    private static final double GB = 1e9;

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--backend",
            split = ",",
            paramLabel = "<backend>",
            description = "gloo (CPU or cards), nccl (cards). Default: nccl on cards, gloo on the CPU")
    private List<String> backends;

    @Option(
            names = "--processes",
            split = ",",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "ranks on this machine. Default: ${DEFAULT-VALUE}")
    private List<Integer> processes;

    @Mixin
    private final LaunchOptions launch = new LaunchOptions();

    @Option(
            names = "--megabytes",
            split = ",",
            paramLabel = "<MB>",
            description = "millions of bytes on each rank. Default: 0.512,1,10")
    private List<String> megabytes;

    @Option(names = "--full", description = "all sizes of the course: 0.512,1,10,50,100,500,1000")
    private boolean full;

    @Option(
            names = "--warmup",
            defaultValue = "5",
            paramLabel = "<n>",
            description = "steps before timing begins. Default: ${DEFAULT-VALUE}")
    private int warmup;

    @Option(
            names = "--steps",
            defaultValue = "20",
            paramLabel = "<n>",
            description = "timed steps. Default: ${DEFAULT-VALUE}")
    private int steps;

    @Option(
            names = "--seconds",
            defaultValue = "10",
            paramLabel = "<s>",
            description = "about how long the steps of one size may take; fewer than --steps where they would take"
                    + " longer, but at least 3. Default: ${DEFAULT-VALUE}")
    private double seconds;

    @Mixin
    private final StorageOptions storage = new StorageOptions("distributed_communication_single_node");

    @Override
    public Integer call() throws InterruptedException {
        try {
            DeviceKind on = on();
            List<CollectiveBackend> chosen = backends(on);
            AllReducePlan plan = plan();
            if (launch.joins()) {
                run(0, chosen.get(0), on, plan);
                return 0;
            }
            int exitCode = 0;
            for (CollectiveBackend backend : chosen) {
                for (int n : processes) {
                    try {
                        run(n, backend, on, plan);
                    } catch (RankFailure e) {
                        System.err.println("cs336: " + e.getMessage());
                        exitCode = 1;
                    }
                }
            }
            return exitCode;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private void run(int n, CollectiveBackend backend, DeviceKind on, AllReducePlan plan) throws InterruptedException {
        List<ArrayList<AllReduceTimes>> times = launch.launcher(n, backend, storage.device())
                .device(on)
                .threads(1) // as the peer: nothing is computed here
                .output(System.err)
                .run(AllReduceRank.class, plan);
        if (launch.reports() && !times.get(0).isEmpty()) {
            PrintWriter out = spec.commandLine().getOut();
            out.println(AlignedText.of(table(backend, on, times.get(0))));
            out.flush();
        }
    }

    private DeviceKind on() {
        return Device.parse(LaunchOptions.forAllRanks(storage.device())).kind();
    }

    private List<CollectiveBackend> backends(DeviceKind on) {
        boolean cards = on == DeviceKind.CUDA;
        List<String> names = backends == null ? List.of(cards ? "nccl" : "gloo") : backends;
        var chosen = new ArrayList<CollectiveBackend>();
        for (String name : names) chosen.add(CollectiveBackend.parse(name));
        if (!cards && chosen.contains(CollectiveBackend.NCCL)) {
            throw new IllegalArgumentException("--backend nccl needs cards: --device is " + storage.device());
        }
        if (launch.joins() && chosen.size() > 1) {
            throw new IllegalArgumentException("--backend must be one with --join, not " + String.join(",", names));
        }
        return chosen;
    }

    private AllReducePlan plan() {
        ArgumentCheck.atLeast("--warmup", 2, warmup);
        ArgumentCheck.atLeast("--steps", AllReduceBenchmark.LEAST_STEPS, steps);
        if (!(seconds > 0)) throw new IllegalArgumentException("--seconds must be above 0, not " + seconds);
        storage.requireNames();
        launch.check(processes);
        if (full && megabytes != null) throw new IllegalArgumentException("--full cannot go with --megabytes");
        List<String> sizes = megabytes != null ? megabytes : full ? FULL_MEGABYTES : MEGABYTES;
        return new AllReducePlan(
                sizes.stream().map(AllReduceCommand::bytes).toList(),
                warmup,
                steps,
                seconds,
                launch.emulatesNodes() ? launch.nodes() : 0,
                MeasurementFile.of(storage));
    }

    private static long bytes(String megabytes) {
        try {
            long bytes = new BigDecimal(megabytes).movePointRight(MEGA).longValueExact();
            if (bytes >= 4 && bytes % 4 == 0) return bytes;
        } catch (ArithmeticException | NumberFormatException e) {
            // Said below.
        }
        throw new IllegalArgumentException(
                "--megabytes must be a positive number of MB that float32 can fill, such as 0.512, not " + megabytes);
    }

    private static Table table(CollectiveBackend backend, DeviceKind on, List<AllReduceTimes> measured) {
        Table table = Table.create(
                StringColumn.create("backend"),
                StringColumn.create("on"),
                IntColumn.create("processes"),
                DoubleColumn.create("MB"),
                IntColumn.create("n"),
                DoubleColumn.create("median [ms]"),
                DoubleColumn.create("min [ms]"),
                DoubleColumn.create("max [ms]"),
                DoubleColumn.create("algorithm [GB/s]"),
                DoubleColumn.create("bus [GB/s]"));
        for (AllReduceTimes times : measured) {
            Row row = table.appendRow();
            row.setString("backend", backend.toString());
            row.setString("on", on.toString().toLowerCase(Locale.ROOT));
            row.setInt("processes", times.ranks());
            row.setDouble("MB", times.bytes() / MB);
            row.setInt("n", times.summary().n());
            row.setDouble("median [ms]", times.summary().median());
            row.setDouble("min [ms]", times.summary().min());
            row.setDouble("max [ms]", times.summary().max());
            row.setDouble("algorithm [GB/s]", times.algorithmBandwidth() / GB);
            row.setDouble("bus [GB/s]", times.busBandwidth() / GB);
        }
        return table;
    }
}
