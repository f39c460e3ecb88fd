package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.Provenance;
import cs336.numbers.CalculatedResults;
import cs336.numbers.MeasurementQuery;
import cs336.torch.DType;
import cs336.units.Tokens;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** The command {@code accounting}: calculates memory, communication and time of training on a mesh of devices. */
@Command(
        name = "accounting",
        description = {
            "Calculates the memory of a device of a mesh and the data that it sends in a training step, tensor by tensor"
                    + " and collective by collective.",
            "--answers solves the course's problem communication_accounting; --simulate predicts steps on up to 16,384"
                    + " devices from measurements on one, two and four. Both store their results."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  The XXL model with FSDP on 64 devices, each with 4,096 tokens:",
            "    ./cs336 accounting --shards 64",
            "  With tensor parallelism of 8 in addition, on twice as many devices:",
            "    ./cs336 accounting --shards 16 --tensor 8 --tokens 32768",
            "  A model of the course on 8 devices with sharded optimizer state:",
            "    ./cs336 accounting --model xl --shards 8 --stage 1 --tokens 256",
            "  The answers, and predictions for up to 16,384 GPUs:",
            "    ./cs336 accounting --answers",
            "    ./cs336 accounting --simulate h200-x4",
            "",
            "Exit codes: 0 done, 1 a file cannot be read or written, 2 invalid arguments."
        })
public final class AccountingCommand extends LabCommand {
    private static final int CONTEXT = 128;
    private static final Map<String, Accelerator> CHIPS =
            Map.of("tpu-v5p", Accelerator.TPU_V5P, "h100", Accelerator.H100, "h200", Accelerator.H200);

    @Option(
            names = "--model",
            defaultValue = "XXL",
            paramLabel = "<name>",
            description = "XXL (feed-forward layers only, bf16), small, medium, large, xl or 2.7B (fp32, context 128)")
    private String modelName;

    @Option(names = "--data", defaultValue = "1", paramLabel = "<n>", description = "number of replicas")
    private int data;

    @Option(
            names = "--shards",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of devices that shard each replica as given by --stage")
    private int shards;

    @Option(
            names = "--stage",
            defaultValue = "3",
            paramLabel = "<n>",
            description =
                    "ZeRO stage of --shards: 1 shards the optimizer state, 2 also the gradients, 3 also the weights"
                            + " (FSDP)")
    private int stage;

    @Option(
            names = "--tensor",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of devices that shard each matrix (tensor parallelism)")
    private int tensor;

    @Option(names = "--pipeline", defaultValue = "1", paramLabel = "<n>", description = "number of pipeline stages")
    private int pipeline;

    @Option(
            names = "--tokens",
            defaultValue = "4096",
            paramLabel = "<n>",
            description = "tokens of a micro-batch on each data-parallel rank")
    private int tokens;

    @Option(
            names = "--micro-batches",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of micro-batches per step")
    private int microBatches;

    @Option(
            names = "--chip",
            defaultValue = "h200",
            paramLabel = "<name>",
            description = "model of the GPU or TPU: h100, h200 or tpu-v5p")
    private String chip;

    @Option(
            names = "--answers",
            description =
                    "solve the problem communication_accounting and the calculations on data, fully sharded and tensor"
                            + " parallelism; store the results under "
                            + CalculatedResults.ON_PAPER)
    private boolean answers;

    @Option(
            names = "--simulate",
            paramLabel = "<machine>",
            description =
                    "predict steps on 2 to 16,384 devices from this machine's all-reduces and its steps on two and"
                            + " four GPUs (batch " + ScaleOutStudy.BATCH + ", context " + ScaleOutStudy.CONTEXT
                            + ", fp32); store the results under " + CalculatedResults.ON_PAPER)
    private String simulated;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "folder of the measurements of all machines")
    private Path output;

    @Override
    public Integer call() throws IOException {
        return checked(() -> {
            if (answers || simulated != null) {
                requireOnly(answers ? "with --answers" : "with --simulate", "--answers", "--simulate", "--output");
            }
            ArgumentCheck.notEmpty("--output", output);
            if (!answers && simulated == null) {
                requireNotGiven("without --answers or --simulate", "--output");
            }
            if (simulated != null) {
                Provenance.requireName("--simulate", simulated);
            }
            MeasurementQuery measured = simulated == null ? null : MeasurementQuery.of(output.resolve(simulated));
            if (answers || simulated != null) {
                ArgumentCheck.writableFolder("--output", output);
            }
            if (simulated != null) { // first, because measurements may be missing
                new ScaleOutWriter(output, out()).write(new ScaleOutStudy(measured));
            }
            if (answers) {
                var writer = new AccountingWriter(output, out());
                writer.write(CommunicationAccounting.STANDARD);
                writer.writeLayers();
            }
            if (!answers && simulated == null) {
                report();
            }
            out().flush();
            return 0;
        });
    }

    private void report() {
        ArgumentCheck.atLeast("--data", 1, data);
        ArgumentCheck.atLeast("--shards", 1, shards);
        ArgumentCheck.atLeast("--tensor", 1, tensor);
        ArgumentCheck.atLeast("--pipeline", 1, pipeline);
        ArgumentCheck.atLeast("--micro-batches", 1, microBatches);
        ModelShape model = model();
        if (pipeline > model.blocks()) {
            throw new IllegalArgumentException("--pipeline must be at most " + model.blocks() + ", the blocks of "
                    + model.name() + ", not " + pipeline);
        }
        TrainingState state = model == ModelShape.XXL ? TrainingState.MIXED : TrainingState.SINGLE;
        var mesh = new Mesh(data, shards, zeroStage(), tensor, pipeline);
        var microBatch = new Tokens(ArgumentCheck.atLeast("--tokens", 1, tokens));
        Accelerator device = CHIPS.get(ArgumentCheck.oneOf(
                "--chip", chip, CHIPS.keySet().stream().sorted().toList()));
        try {
            new MeshReport(model, state, mesh, microBatch, microBatches, device).print(out());
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException("--tokens " + tokens + " with --micro-batches " + microBatches + " on "
                    + mesh + " exceeds the range of 64-bit integers");
        }
    }

    private ModelShape model() {
        List<String> names = new ArrayList<>(List.of(ModelShape.XXL.name()));
        for (ModelSize size : ModelSize.values()) {
            names.add(size.label());
        }
        String name = ArgumentCheck.oneOf("--model", modelName, names);
        return name.equals(ModelShape.XXL.name())
                ? ModelShape.XXL
                : ModelShape.of(name, ModelSize.parse(name).config(ModelEdition.SPRING_2025, CONTEXT), DType.FLOAT32);
    }

    private ZeroStage zeroStage() {
        ZeroStage[] stages = ZeroStage.values();
        if (stage < 1 || stage > stages.length) {
            throw new IllegalArgumentException("--stage must be 1, 2 or 3, not " + stage);
        }
        return stages[stage - 1];
    }
}
