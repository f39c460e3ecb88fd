package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.numbers.MeasurementQuery;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** What training on a mesh of devices takes, before anything runs. */
@Command(
        name = "accounting",
        description = {
            "Counts what a device of a mesh holds and sends in a training step, copy by copy and message by message.",
            "--answers works out the course's problem communication_accounting; --simulate predicts steps of up to 16,384"
                    + " devices from measurements of one, two and four. Both store their numbers."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  The XXL model, fully sharded over 64 devices, each with a sequence of 4,096 tokens:",
            "    cs336 accounting --shards 64",
            "  The same with matrices split by 8 as well, and twice as many devices:",
            "    cs336 accounting --shards 16 --tensor 8 --tokens 32768",
            "  A model of the course on 8 devices, the optimizer's state sharded:",
            "    cs336 accounting --model xl --shards 8 --stage 1 --tokens 256",
            "  The answers, and what up to four cards say about 16,384:",
            "    cs336 accounting --answers",
            "    cs336 accounting --simulate h200-x4",
            "",
            "Exit codes: 0 done, 2 wrong use."
        })
public final class AccountingCommand implements Callable<Integer> {
    /** The folder of numbers that come from no machine. */
    public static final String ON_PAPER = "on-paper";

    private static final int CONTEXT = 128;
    private static final List<Metric> FITTED = List.of(
            new Metric("bandwidth", "GB/s"),
            new Metric("launch", "us"),
            new Metric("each", "us"),
            new Metric("copy", "ms"),
            new Metric("start", "us"),
            new Metric("slowdown", "%"));
    private static final Map<String, Accelerator> CHIPS =
            Map.of("tpu-v5p", Accelerator.TPU_V5P, "h100", Accelerator.H100, "h200", Accelerator.H200);

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--model",
            defaultValue = "XXL",
            paramLabel = "<name>",
            description = "XXL (feed-forward layers alone, bf16), small, medium, large, xl or 2.7B (fp32, context 128)."
                    + " Default: ${DEFAULT-VALUE}")
    private String modelName;

    @Option(
            names = "--data",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "replicas. Default: ${DEFAULT-VALUE}")
    private int data;

    @Option(
            names = "--shards",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "devices among which each replica's state is split. Default: ${DEFAULT-VALUE}")
    private int shards;

    @Option(
            names = "--stage",
            defaultValue = "3",
            paramLabel = "<n>",
            description =
                    "what of it, by the stages of ZeRO: 1 the optimizer's state, 2 gradients too, 3 weights too (FSDP)."
                            + " Default: ${DEFAULT-VALUE}")
    private int stage;

    @Option(
            names = "--tensor",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "devices that share each matrix. Default: ${DEFAULT-VALUE}")
    private int tensor;

    @Option(
            names = "--pipeline",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "stages of blocks. Default: ${DEFAULT-VALUE}")
    private int pipeline;

    @Option(
            names = "--tokens",
            defaultValue = "4096",
            paramLabel = "<n>",
            description = "of a micro-batch, for each group of devices that takes sequences of its own."
                    + " Default: ${DEFAULT-VALUE}")
    private int tokens;

    @Option(
            names = "--micro-batches",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "of a step. Default: ${DEFAULT-VALUE}")
    private int microBatches;

    @Option(
            names = "--chip",
            defaultValue = "h200",
            paramLabel = "<name>",
            description = "h100, h200 or tpu-v5p. Default: ${DEFAULT-VALUE}")
    private String chip;

    @Option(names = "--answers", description = "the problem communication_accounting, stored under " + ON_PAPER)
    private boolean answers;

    @Option(
            names = "--simulate",
            paramLabel = "<machine>",
            description =
                    "steps of 2 to 16,384 devices from a machine's all-reduces and steps of two and four cards (batch "
                            + ScaleOutStudy.BATCH + ", context " + ScaleOutStudy.CONTEXT + ", fp32), stored under "
                            + ON_PAPER)
    private String simulated;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "folder of all machines' measurements. Default: ${DEFAULT-VALUE}")
    private Path output;

    @Override
    public Integer call() throws IOException {
        try {
            if (answers) answer();
            if (simulated != null) simulate();
            if (!answers && simulated == null) account();
            spec.commandLine().getOut().flush();
            return 0;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    // ---- one mesh ----

    private void account() {
        ModelShape model = model();
        TrainingState state = model == ModelShape.XXL ? TrainingState.MIXED : TrainingState.SINGLE;
        Mesh mesh = new Mesh(data, shards, zeroStage(), tensor, pipeline);
        Tokens microBatch = new Tokens(ArgumentCheck.atLeast("tokens", 1, tokens));
        Accelerator on = CHIPS.get(ArgumentCheck.oneOf(
                "chip", chip, CHIPS.keySet().stream().sorted().toList()));
        var memory = new DeviceMemory(model, state, mesh, microBatch);
        var communication = new StepCommunication(model, state, mesh, microBatch, microBatches);
        PrintWriter out = spec.commandLine().getOut();
        out.printf(
                Locale.ROOT,
                "%s, %,d parameters, on %s: %,d devices, %,d tokens a step%n%n",
                model.name(),
                model.parameters(),
                mesh,
                mesh.devices(),
                mesh.batchShards() * microBatch.count() * microBatches);
        out.println(AlignedText.of(memory.table()));
        boolean fits = memory.total().compareTo(on.memory()) <= 0;
        out.printf(
                "%n%s of %s of one %s: %s%n%n", memory.total(), on.memory(), on.name(), fits ? "fits" : "does not fit");
        out.println(AlignedText.of(communication.table()));
        Seconds computing = model.forwardBackward(microBatch.times(microBatches))
                .times(1.0 / ((double) tensor * pipeline))
                .at(on.peak());
        out.printf(
                "%ncomputing at the bf16 peak of %s takes %s, sending at %s %s%n",
                on.peak(), computing, on.link(), communication.sent().over(on.link()));
        if (pipeline > 1) out.printf(Locale.ROOT, "the pipeline's bubble: %.0f %%%n", 100 * communication.bubble());
    }

    private ModelShape model() {
        List<String> names = new ArrayList<>(List.of(ModelShape.XXL.name()));
        for (ModelSize size : ModelSize.values()) names.add(size.label());
        String name = ArgumentCheck.oneOf("model", modelName, names);
        return name.equals(ModelShape.XXL.name())
                ? ModelShape.XXL
                : ModelShape.of(name, ModelSize.parse(name).config(ModelEdition.SPRING_2025, CONTEXT), DType.FLOAT32);
    }

    private ZeroStage zeroStage() {
        ZeroStage[] stages = ZeroStage.values();
        if (stage < 1 || stage > stages.length) {
            throw new IllegalArgumentException("stage must be 1, 2 or 3, not " + stage);
        }
        return stages[stage - 1];
    }

    // ---- the problem ----

    private void answer() throws IOException {
        Measurements stored = Measurements.of(output, ON_PAPER, "communication_accounting");
        Provenance provenance = onPaper();
        Table table = Table.create(
                StringColumn.create("part"),
                LongColumn.create("tokens"),
                IntColumn.create("fsdp"),
                IntColumn.create("tensor"),
                StringColumn.create("number"),
                StringColumn.create("value"));
        Map<Case, List<Measurement>> cases = new LinkedHashMap<>();
        for (var answer : CommunicationAccounting.STANDARD.answers()) {
            Case c = Case.measuredHere("calculator")
                    .with("part", answer.part())
                    .with("tokens", answer.tokens())
                    .with("fsdp", answer.fsdp())
                    .with("tensor", answer.tensor());
            cases.computeIfAbsent(c, key -> new ArrayList<>())
                    .add(number(answer.name(), answer.unit(), answer.value()));
            Row row = table.appendRow();
            row.setString("part", answer.part());
            row.setLong("tokens", answer.tokens());
            row.setInt("fsdp", answer.fsdp());
            row.setInt("tensor", answer.tensor());
            row.setString("number", answer.name());
            row.setString(
                    "value",
                    String.format(Locale.ROOT, "%,.5g %s", answer.value(), answer.unit())
                            .strip());
        }
        for (var entry : cases.entrySet()) stored.put(entry.getKey(), entry.getValue(), provenance);
        show(table, stored);
    }

    // ---- steps of many devices ----

    private void simulate() throws IOException {
        var scaling = new ScaleOutStudy(MeasurementQuery.of(output.resolve(simulated)));
        // All of them before the first is stored: a machine that lacks a measurement leaves nothing behind.
        Table predictions = scaling.predictions();
        Table steps = scaling.curves();
        Table allReduces = scaling.allReduces();
        Table fits = scaling.fits();
        Provenance provenance = onPaper();
        Measurements predicted = anew("scaling_predictions");
        for (Row row : predictions) {
            Case c = Case.measuredHere("simulated")
                    .with("size", row.getString("size"))
                    .with("processes", row.getInt("processes"))
                    .with("mode", row.getString("mode"))
                    .with("bucket_mb", text(row.getDouble("bucket_mb")))
                    .with("fitted", row.getString("fitted"));
            predicted.put(c, deviations(row), provenance);
        }
        show(predictions, predicted);
        Measurements curves = anew("scaling_out");
        for (Row row : steps) {
            Case c = Case.measuredHere("simulated")
                    .with("model", row.getString("model"))
                    .with("strategy", row.getString("strategy"))
                    .with("devices", row.getInt("devices"));
            curves.put(
                    c,
                    List.of(
                            number("step", "ms", row.getDouble("step")),
                            number("useful", "%", row.getDouble("useful"))),
                    provenance);
        }
        show(steps, curves);
        Measurements collectives = anew("scaling_all_reduces");
        for (Row row : allReduces) {
            Case c = Case.measuredHere("simulated")
                    .with("processes", row.getInt("processes"))
                    .with("megabytes", text(row.getDouble("megabytes")));
            collectives.put(c, deviations(row), provenance);
        }
        show(allReduces, collectives);
        Measurements fit = anew("scaling_fit");
        for (Row row : fits) {
            List<Measurement> numbers = new ArrayList<>();
            for (Metric metric : FITTED) {
                double value = row.getDouble(metric.name());
                if (Double.isFinite(value)) numbers.add(number(metric.name(), metric.unit(), value));
            }
            fit.put(Case.measuredHere("fitted").with("from", row.getString("from")), numbers, provenance);
        }
        show(fits, fit);
    }

    /** Without what followed from measurements that are there no more. */
    private Measurements anew(String problem) throws IOException {
        Measurements stored = Measurements.of(output, ON_PAPER, problem);
        Files.deleteIfExists(stored.path());
        return stored;
    }

    private static List<Measurement> deviations(Row row) {
        return List.of(
                number("measured", "ms", row.getDouble("measured")),
                number("predicted", "ms", row.getDouble("predicted")),
                number("off", "%", row.getDouble("off")));
    }

    private void show(Table table, Measurements stored) {
        PrintWriter out = spec.commandLine().getOut();
        out.println(AlignedText.of(table));
        out.printf("stored in %s%n%n", stored.path());
    }

    private static Measurement number(String name, String unit, double value) {
        return Measurement.of(Samples.once(new Metric(name, unit), value));
    }

    private static String text(double megabytes) {
        return megabytes == Math.rint(megabytes) ? String.valueOf((long) megabytes) : String.valueOf(megabytes);
    }

    private static Provenance onPaper() {
        return Provenance.of(Device.cpu()).named(ON_PAPER);
    }
}
