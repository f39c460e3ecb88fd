package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.WholeFile;
import cs336.bench.Workload;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import tech.tablesaw.api.ColumnType;
import tech.tablesaw.api.Table;
import tech.tablesaw.io.csv.CsvReadOptions;

/**
 * The workload of {@code cs336 profile}: one {@link StepProfile} per case. In addition to the metrics it writes files
 * about the last step to {@linkplain ModelCases#folder the folder of the case}:
 *
 * <ul>
 *   <li>{@code trace.json.gz}: the trace, for Perfetto;
 *   <li>{@code stacks.folded}: folded stacks for a flame graph, GPU time if the step ran on a GPU, otherwise CPU time;
 *       kernel names are shortened;
 *   <li>{@code operators.csv} and {@code operators.txt}: the operator table;
 *   <li>on a GPU, {@code kernels.csv}: one row per phase and kernel (means of all counted steps), and
 *       {@code kernels.txt}: the kernel table.
 * </ul>
 */
public final class ProfileWorkload implements Workload {
    /** Name of the file with one row per phase and kernel; see {@link #kernels}. */
    public static final String KERNELS = "kernels.csv";

    /** Name of the trace file. */
    public static final String TRACE = "trace.json.gz";

    /** Name of the file of folded stacks. */
    public static final String STACKS = "stacks.folded";

    private record KernelOfPhase(
            String phase,
            int rank,
            KernelKind kind,
            double launches,
            @Header("time [ms]") double time,
            @Header("share [%]") double percent,
            String kernel,
            String name) {}

    /** Returns the case of a model, without its device. */
    public static Case of(ModelCase c, int warmup, int steps, Path folder) {
        return ModelCases.of(ProfileWorkload.class, c)
                .setting("warmup", warmup)
                .setting("steps", steps)
                .setting("folder", folder)
                .yields(StepProfile.METRICS.toArray(Metric[]::new));
    }

    @Override
    public void run(Case c, Consumer<Samples> record) throws IOException {
        StepProfile profile;
        try (var model = new TransformerLM(ModelCases.config(c), Device.parse(c.text("device")))) {
            profile = StepProfile.of(
                    model,
                    c.integer("batch"),
                    Precision.parse(c.text("dtype")),
                    Pass.parse(c.text("pass")),
                    c.integer("warmup"),
                    c.integer("steps"));
        }
        profile.samples().forEach(record);
        write(profile, Files.createDirectories(ModelCases.folder(c)));
    }

    private static void write(StepProfile steps, Path folder) throws IOException {
        Profile last = steps.lastStep();
        last.write(folder.resolve(TRACE));
        brief(last.stacks()).write(folder.resolve(STACKS));
        OpTable operators = last.ops();
        operators.table().write().csv(folder.resolve("operators.csv").toString());
        WholeFile.write(folder.resolve("operators.txt"), operators + "\n");
        if (!last.trace().work().isEmpty()) {
            kernels(steps).write().csv(folder.resolve(KERNELS).toString());
            WholeFile.write(folder.resolve("kernels.txt"), last.kernels() + "\n");
        }
    }

    /** Returns the stacks with short kernel names; full names would make up most of the file. */
    private static FoldedStacks brief(FoldedStacks stacks) {
        return FoldedStacks.of(stacks.stacks().stream()
                .map(stack -> new FoldedStacks.Stack(
                        stack.frames().stream().map(KernelName::brief).toList(), stack.value()))
                .toList());
    }

    /**
     * Returns one row per phase and kernel, in each phase the kernel with the longest time first. The columns are
     * {@code phase}, {@code rank} from 1, {@code kind}, {@code launches} and {@code time [ms]} per step, {@code share
     * [%]} of the phase, {@code kernel} (short name) and {@code name} (full name). If there is a backward pass, the
     * phase {@code forward-backward} is both passes together.
     */
    static Table kernels(StepProfile steps) {
        Map<String, KernelTable> phases = new LinkedHashMap<>();
        steps.pass().phases().forEach(phase -> phases.put(phase, steps.phases(phase)));
        if (phases.containsKey("backward")) {
            phases.put("forward-backward", steps.phases("forward", "backward"));
        }
        List<KernelOfPhase> kernels = new ArrayList<>();
        phases.forEach((phase, table) -> {
            int rank = 0;
            for (KernelTable.KernelRow row : table.rows()) {
                kernels.add(new KernelOfPhase(
                        phase,
                        ++rank,
                        row.kind(),
                        (double) row.launches() / steps.steps(),
                        row.total() / NANOS_PER_MS / steps.steps(),
                        100.0 * row.total() / table.total(),
                        KernelName.brief(row.name()),
                        row.name()));
            }
        });
        return Tables.of(KernelOfPhase.class, kernels);
    }

    /**
     * Reads the {@value #KERNELS} of a case.
     *
     * @throws IOException if the file cannot be read
     */
    public static Table readKernels(Path file) throws IOException {
        ColumnType[] types = {
            ColumnType.STRING,
            ColumnType.INTEGER,
            ColumnType.STRING,
            ColumnType.DOUBLE,
            ColumnType.DOUBLE,
            ColumnType.DOUBLE,
            ColumnType.STRING,
            ColumnType.STRING
        };
        return Table.read().csv(CsvReadOptions.builder(file.toFile()).columnTypes(types));
    }
}
