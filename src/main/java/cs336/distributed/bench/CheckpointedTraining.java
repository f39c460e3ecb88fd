package cs336.distributed.bench;

import cs336.basics.Batches;
import cs336.basics.CosineSchedule;
import cs336.basics.GradScaler;
import cs336.basics.TransformerConfig;
import cs336.bench.Case;
import cs336.bench.WholeFile;
import cs336.checkpoints.CheckpointFolder;
import cs336.checkpoints.CheckpointSettings;
import cs336.checkpoints.TextTokens;
import cs336.checkpoints.TrainingOptions;
import cs336.checkpoints.TrainingProgress;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.training.FileWork;
import cs336.safetensors.Safetensors;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.Tensor;

/**
 * Data-parallel training of a Transformer language model that can be interrupted at any time: rank 0 saves checkpoints,
 * and all ranks load the last one. The data is an endless sequence of random tokens or of random positions of a text;
 * in each step, rank r of n takes the r-th of the next n batches. Gradients are clipped to the norm {@value #MAX_NORM}.
 *
 * <p>A checkpoint contains the state of all ranks in the form of an optimizer without shards. It may therefore be
 * resumed in another mode and with another number of ranks, which continue at the same position of the data. With the
 * same mode and number of ranks on the CPU, a resumed run equals an uninterrupted one bit for bit.
 */
public final class CheckpointedTraining
        implements RankProgram<CheckpointedTraining.TrainingJob, CheckpointedTraining.TrainingEnd> {
    /** Options of the benchmarks, which have no effect on a training run. */
    static final String[] BENCHMARK_OPTIONS = {
        "--warmup", "--rounds", "--round", "--output", "--machine", "--problem", "--again", "--allow-dirty"
    };

    private static final long DATA_SEED = 0;
    private static final double MAX_NORM = 1;

    /**
     * The training to run.
     *
     * @param setup the model, the precision and the mode, see {@link DdpBenchmark#caseOf},
     *     {@link ShardBenchmark#caseOf} and {@link FsdpBenchmark#caseOf}
     * @param steps number of steps, including those before the checkpoint
     * @param checkpoints the settings of checkpoints, whose folder all ranks can read; restarted ranks always resume
     * @param text the file whose bytes are the tokens; null for random tokens
     * @param learningRate the maximum learning rate, see {@link TrainingOptions#schedule(double, int)}
     */
    public record TrainingJob(Case setup, int steps, CheckpointSettings checkpoints, String text, double learningRate)
            implements Serializable {}

    /**
     * The result of a training run.
     *
     * @param first step of the checkpoint from which the training continued; 0 if it began without a checkpoint
     * @param loss mean loss of all ranks in the last step; NaN if no step was left
     */
    public record TrainingEnd(long first, double loss) implements Serializable {}

    /**
     * Returns the training that the options of a command describe.
     *
     * @param cases the selected models and modes
     * @throws IllegalArgumentException if there are several, ranks do not have the same parameters in this mode, or the
     *     text or the learning rate cannot be used
     * @throws IOException if the text cannot be read
     */
    static TrainingJob job(List<Case> cases, int steps, CheckpointSettings checkpoints, TrainingOptions options)
            throws IOException {
        if (cases.size() != 1) {
            throw new IllegalArgumentException(
                    "with --checkpoint the options must select one model and one --mode, not " + cases.size());
        }
        String mode = RankCase.of(cases.get(0)).mode();
        if (mode.equals(DdpBenchmark.NONE) || mode.equals(ShardMode.UNSYNCHRONIZED.toString())) {
            throw new IllegalArgumentException(
                    "--mode " + mode + " cannot be used with --checkpoint: its ranks do not train the same model");
        }
        TrainingOptions.schedule(options.learningRate(), steps);
        if (options.text() != null) {
            WholeFile.requireRegularFile(options.text()); // each rank reads it, too
            TextTokens.read(options.text(), RankCase.of(cases.get(0)).model().config());
        }
        String text =
                options.text() == null ? null : options.text().toAbsolutePath().toString();
        return new TrainingJob(cases.get(0), steps, checkpoints, text, options.learningRate());
    }

    /**
     * Trains on the ranks of a launcher, and prints the first and the last step.
     *
     * @param out null if another process prints them
     */
    static void train(Launcher launcher, TrainingJob job, PrintWriter out) throws InterruptedException {
        TrainingEnd end = launcher.run(CheckpointedTraining.class, job).get(0);
        if (out != null) {
            print(end, job, out);
        }
    }

    private static void print(TrainingEnd end, TrainingJob job, PrintWriter out) {
        String folder = job.checkpoints.folder();
        if (end.first >= job.steps) {
            out.printf(
                    "%s: no steps left: the last checkpoint is of step %,d, and --steps is %d%n",
                    folder, end.first, job.steps);
        } else {
            out.printf("trained from step %,d to %,d; checkpoints are in %s%n", end.first, job.steps, folder);
        }
        out.flush();
    }

    @Override
    public TrainingEnd run(ProcessGroup group, TrainingJob job) throws IOException {
        RankCase c = RankCase.of(job.setup);
        Torch.allowTf32(c.precision().tf32());
        Torch.seed(group.rank());
        try (var scope = MemoryScope.open();
                var training = DataParallelTraining.of(c, group);
                var folder = group.rank() == 0 ? CheckpointFolder.open(Path.of(job.checkpoints.folder())) : null) {
            TrainingEnd end = new RankTraining(group, job, c, training, folder).toTheEnd();
            FileWork.onRankZero(group, () -> folder.awaitWritten()); // the other ranks wait for the last checkpoint
            return end;
        }
    }

    /**
     * One rank's part of the training.
     *
     * @param folder null except on rank 0
     */
    private record RankTraining(
            ProcessGroup group, TrainingJob job, RankCase c, DataParallelTraining training, CheckpointFolder folder) {
        TrainingEnd toTheEnd() throws IOException {
            TransformerConfig config = c.model().config();
            TextTokens text = job.text == null ? null : TextTokens.read(Path.of(job.text), config);
            String data = (text == null ? "random tokens" : text.description()) + ", seed " + DATA_SEED;
            requireSame(data);
            TrainingProgress start = resume(data);
            int batchSize = c.model().batch();
            Batches batches = text == null
                    ? Batches.random(config.vocabSize(), batchSize, config.contextLength(), group.device(), DATA_SEED)
                    : Batches.fromTokens(text.tokens(), batchSize, config.contextLength(), group.device(), DATA_SEED);
            CosineSchedule schedule = TrainingOptions.schedule(job.learningRate, job.steps);
            if (start.steps() < job.steps) {
                batches.skip(start.sequences());
            }
            long sequences = start.sequences();
            double loss = Double.NaN;
            for (long step = start.steps() + 1; step <= job.steps; step++) {
                training.optimizer().setLearningRate(schedule.at(step - 1));
                batches.skip((long) group.rank() * batchSize);
                loss = step(batches);
                batches.skip((long) (group.size() - 1 - group.rank()) * batchSize);
                sequences += (long) group.size() * batchSize;
                if (job.checkpoints.follows(step, job.steps)) {
                    save(step, sequences, data);
                    loss = mean(loss);
                    if (group.rank() == 0) {
                        System.out.printf("step %,7d   loss %.4f%n", step, loss);
                    }
                }
            }
            return new TrainingEnd(start.steps(), loss);
        }

        /** Checks that all ranks have read the same text, of which each machine may have its own copy. */
        private void requireSame(String data) {
            List<String> all = group.allGather(data);
            for (int rank = 1; rank < all.size(); rank++) {
                if (!all.get(rank).equals(all.get(0))) {
                    throw new IllegalArgumentException(
                            "--text " + job.text + " must be the same file on all ranks: rank 0 has " + all.get(0)
                                    + ", rank " + rank + " has " + all.get(rank));
                }
            }
        }

        /** Loads the last checkpoint, if the run is to be resumed and there is one, and returns its position. */
        private TrainingProgress resume(String data) throws IOException {
            var latest = new AtomicReference<String>(); // on rank 0
            FileWork.onRankZero(group, () -> {
                boolean resumes = job.checkpoints.resume() || World.restarts() > 0;
                Path file = resumes ? folder.latest(System.err::println) : null;
                if (file != null) {
                    requireNoScale(file);
                    latest.set(file.toString());
                }
            });
            String name = group.allGather(latest.get()).get(0);
            if (name == null) {
                return TrainingProgress.START;
            }
            Path file = Path.of(name);
            TrainingProgress progress = TrainingProgress.of(
                    file,
                    training.load(file),
                    c.model().config().numHeads(),
                    (long) group.size() * c.model().batch());
            progress.restoreRandomState(file, group.rank(), group.device());
            if (group.rank() == 0) {
                progress.changes(file, data, settings()).forEach(System.err::println);
            }
            return progress;
        }

        private static void requireNoScale(Path file) throws IOException {
            try (Safetensors saved = Safetensors.open(file)) {
                if (GradScaler.isSavedIn(saved.entries().keySet())) {
                    throw new IllegalArgumentException(file + " has the loss scale of a run with --dtype fp16, which is"
                            + " not implemented across ranks; continue it with train");
                }
            }
        }

        /** Trains on the next batch and returns its loss on this rank. */
        private double step(Batches batches) {
            try (var scope = MemoryScope.open()) {
                Tensor loss = training.backward(batches.next(), () -> {});
                training.clipGradients(MAX_NORM);
                training.update();
                return loss.item_double();
            }
        }

        private void save(long step, long sequences, String data) throws IOException {
            List<byte[]> randomStates = group.allGather(Torch.randomState(group.device()));
            training.save(
                    folder,
                    new TrainingProgress(
                            step, sequences, c.model().config().numHeads(), data, settings(), randomStates),
                    group);
        }

        private Map<String, String> settings() {
            return TrainingOptions.settings(
                    c.precision(),
                    c.model().config().contextLength(),
                    (long) group.size() * c.model().batch(),
                    TrainingOptions.schedule(job.learningRate, job.steps),
                    DataParallelTraining.ADAMW.order(),
                    MAX_NORM);
        }

        private double mean(double loss) {
            return group.allGather(loss).stream()
                    .mapToDouble(Double::doubleValue)
                    .average()
                    .orElseThrow();
        }
    }
}
