package cs336.planner;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.ModelCase;
import cs336.bench.ModelCaseOptions;
import cs336.bench.Pass;
import cs336.bench.Project;
import cs336.distributed.bench.FsdpMode;
import cs336.distributed.training.StepMemoryOptions;
import cs336.planner.StoredCases.StoredCase;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code plan}: predicts memory and time of a step, and shows stored measurements next to them. */
@Command(
        name = "plan",
        description = {
            "Predicts peak memory by category and step time by component, and runs nothing. Stored measurements of the"
                    + " same case on H200 GPUs are printed next to the predictions.",
            "Memory is counted tensor by tensor. Kernel times are fitted to stored profiles of one H200, communication to"
                    + " all-reduces and data-parallel steps of two. The options are those of benchmark and fsdp."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A training step of xl in fp32 on one H200:",
            "    ./cs336 plan --size xl --context 512",
            "  With activation checkpointing of every block:",
            "    ./cs336 plan --size xl --context 2048 --checkpointing blocks-1",
            "  FSDP on two GPUs:",
            "    ./cs336 plan --size 2.7B --batch 1 --context 512 --dtype bf16 --attention flash --mode fsdp --processes 2",
            "",
            "Exit codes: 0 every case fits into memory, 1 a case does not fit, 2 invalid arguments."
        })
public final class PlanCommand extends LabCommand {
    private static final int MOST_LAYERS = 10_000;

    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.STEP);

    @Option(
            names = "--mode",
            defaultValue = "ddp",
            paramLabel = "<mode>",
            description = "division of the model among several GPUs: ddp, zero-1, fsdp, fsdp-without-prefetch")
    private String mode;

    @Option(names = "--processes", defaultValue = "1", paramLabel = "<n>", description = "number of GPUs")
    private int processes;

    @Mixin
    private final StepMemoryOptions memory = new StepMemoryOptions();

    @Option(
            names = "--machine",
            defaultValue = "h200",
            paramLabel = "<name>",
            description = "model of the GPU: h200 or h100. In the commands that measure, --machine is a folder")
    private String machineName;

    @Override
    public Integer call() throws IOException, InterruptedException {
        List<StepPlan> plans =
                checked(() -> models.cases().stream().map(this::plan).toList());
        PlanMachine machine = checked(() -> PlanMachine.parse(machineName));
        boolean fits = true;
        for (StepPlan plan : plans) {
            fits &= print(plan, machine);
        }
        return fits ? 0 : 1;
    }

    private StepPlan plan(ModelCase c) {
        if (c.model().config().numLayers() > MOST_LAYERS) {
            throw new IllegalArgumentException("--layers must be at most " + MOST_LAYERS
                    + ", because the tensors of each block are counted, not "
                    + c.model().config().numLayers());
        }
        ArgumentCheck.atLeast("--processes", 1, processes);
        memory.check();
        FsdpMode division = FsdpMode.parse(mode);
        if (processes == 1) {
            requireNotGiven("on one GPU", "--mode", "--bucket-size-mb");
        } else if (!division.hasBuckets()) {
            requireNotGiven("with --mode " + mode, "--bucket-size-mb");
        }
        StepPlan plan = StepPlan.of(c.model().config().withCheckpointing(memory.checkpointing()))
                .withBatch(c.model().batch())
                .withPrecision(c.precision())
                .withPass(c.pass())
                .withGpus(processes, division)
                .withBucketMb(memory.bucketMb())
                .withLossRows(memory.lossRows());
        try {
            PlanMemory.of(plan);
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException("--size " + c.model().label() + " with --batch "
                    + c.model().batch() + " and --context " + c.model().config().contextLength()
                    + " must need at most 2^63 - 1 bytes of memory");
        }
        return plan;
    }

    private boolean print(StepPlan plan, PlanMachine machine) throws IOException {
        PlanMemory predicted = PlanMemory.of(plan);
        boolean fits = predicted.fits(machine);
        out().println(plan.title());
        out().println();
        out().println(AlignedText.of(predicted.table()));
        out().printf(
                        Locale.ROOT,
                        "%s: %,.1f of %,.1f GiB of an %s%n%n",
                        fits ? "fits" : "out of memory",
                        predicted.total().gib(),
                        machine.usable().gib(),
                        machine.accelerator().name());
        if (!Project.isHere()) {
            out().println(
                            "no time: it is predicted from the measurements in data/measurements of this project; run plan"
                                    + " in the project's folder, not in "
                                    + Path.of("").toAbsolutePath());
            out().println();
            out().flush();
            return fits;
        }
        Optional<String> unpredictable = PlanTime.unpredictable(plan);
        if (unpredictable.isPresent()) {
            out().println("no time: " + unpredictable.get());
        } else if (fits) {
            out().println(AlignedText.of(PlanTime.of(plan, machine).table()));
        }
        List<StoredCase> stored = StoredCases.of(plan);
        out().println(
                        stored.isEmpty()
                                ? "no stored measurement of this case"
                                : AlignedText.of(StoredCases.table(stored)));
        out().println();
        out().flush();
        return fits;
    }
}
