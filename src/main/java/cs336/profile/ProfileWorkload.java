package cs336.profile;

import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import tech.tablesaw.api.ColumnType;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.io.csv.CsvReadOptions;

/**
 * A {@link StepProfile} as a case of a sweep. Beside its numbers it leaves files of the last step in
 * {@linkplain ModelCases#folder the case's folder}:
 *
 * <ul>
 *   <li>{@code trace.json.gz}, for Perfetto;
 *   <li>{@code stacks.folded}, for flame graphs: time of the card where one worked, otherwise of threads; kernels in
 *       brief;
 *   <li>{@code operators.csv} and {@code operators.txt};
 *   <li>where a card worked {@code kernels.csv}, a row a phase and kernel (means of all counted steps), and
 *       {@code kernels.txt}.
 * </ul>
 */
public final class ProfileWorkload implements Workload {
    /** The file with a row for each kernel of each phase: see {@link #kernels}. */
    public static final String KERNELS = "kernels.csv";

    public static final String TRACE = "trace.json.gz";
    public static final String STACKS = "stacks.folded";

    private static final double NANOS_PER_MS = 1e6;

    /** The case of a model; {@code device} is still to be set. */
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
        Files.writeString(folder.resolve("operators.txt"), operators + "\n");
        if (!last.trace().work().isEmpty()) {
            kernels(steps).write().csv(folder.resolve(KERNELS).toString());
            Files.writeString(folder.resolve("kernels.txt"), last.kernels() + "\n");
        }
    }

    /** The same with names of kernels in brief: those in full make most of the file. */
    private static FoldedStacks brief(FoldedStacks stacks) {
        return FoldedStacks.of(stacks.stacks().stream()
                .map(stack -> new FoldedStacks.Stack(
                        stack.frames().stream().map(KernelName::brief).toList(), stack.value()))
                .toList());
    }

    /**
     * A row a phase and kernel, the longest of a phase first: {@code phase}, {@code rank} from 1, {@code kind},
     * {@code launches} and {@code time [ms]} of a step, {@code share [%]} of the phase, {@code kernel} in brief,
     * {@code name} in full. Where there is a backward pass, {@code forward-backward} stands for both together.
     */
    static Table kernels(StepProfile steps) {
        Map<String, KernelTable> phases = new LinkedHashMap<>();
        steps.pass().phases().forEach(phase -> phases.put(phase, steps.phases(phase)));
        if (phases.containsKey("backward")) phases.put("forward-backward", steps.phases("forward", "backward"));
        var phase = StringColumn.create("phase");
        var rank = IntColumn.create("rank");
        var kind = StringColumn.create("kind");
        var launches = DoubleColumn.create("launches");
        var time = DoubleColumn.create("time [ms]");
        var share = DoubleColumn.create("share [%]");
        var brief = StringColumn.create("kernel");
        var name = StringColumn.create("name");
        phases.forEach((label, table) -> {
            int place = 0;
            for (KernelTable.KernelRow row : table.rows()) {
                phase.append(label);
                rank.append(++place);
                kind.append(row.kind().toString());
                launches.append((double) row.launches() / steps.steps());
                time.append(row.total() / NANOS_PER_MS / steps.steps());
                share.append(100.0 * row.total() / table.total());
                brief.append(KernelName.brief(row.name()));
                name.append(row.name());
            }
        });
        return Table.create("kernels", phase, rank, kind, launches, time, share, brief, name);
    }

    /**
     * Reads the table of kernels that a case left.
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
