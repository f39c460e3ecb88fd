package cs336.distributed.bench;

import cs336.basics.Batches;
import cs336.basics.TransformerConfig;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import cs336.torch.DeviceKind;

/**
 * A training setup on several ranks. It identifies a stored measurement of {@code cs336 ddp}, {@code cs336 shard} or
 * {@code cs336 fsdp}.
 *
 * @param model the model and the batch size of each rank
 * @param precision the dtype of the computation
 * @param backend the library that runs the collectives
 * @param nodes number of nodes, real or emulated
 * @param processes number of ranks
 * @param mode name of a {@link DdpBenchmark} mode, a {@link ShardMode} or an {@link FsdpMode}
 * @param bucketMb maximum bucket size in MB (10⁶ bytes); 0 for a mode without buckets
 * @param round number of the run, to distinguish repeated runs that are interleaved with runs of PyTorch
 * @param lossRows number of tokens whose logits are in memory at a time; 0 for all
 */
public record RankCase(
        ModelOptions.Model model,
        Precision precision,
        CollectiveBackend backend,
        int nodes,
        int processes,
        String mode,
        double bucketMb,
        int round,
        int lossRows) {
    /** The parameters of cases of {@code cs336 fsdp} for the checkpointing policy and {@code lossRows}. */
    static final String CHECKPOINTING = "checkpointing";

    static final String LOSS_ROWS = "loss_rows";

    /** Returns the case to store, which yields these metrics. */
    Case toCase(Metric... metrics) {
        return ModelCases.measuredHere(model, precision)
                .with("backend", backend)
                .with("nodes", nodes)
                .with("processes", processes)
                .with("mode", mode)
                .with("bucket_mb", bucketMb)
                .with("round", round)
                .yields(metrics);
    }

    /**
     * Checks that parameters, gradients and optimizer state of all ranks on this machine's CPU fit into its memory. A
     * GPU reports itself that its memory is full.
     *
     * @param stateFraction the fraction of them that a rank stores
     * @throws IllegalArgumentException if they do not fit
     */
    void requireTrainable(Launcher launcher, double stateFraction) {
        if (launcher.deviceKind() == DeviceKind.CPU) {
            int ranks = launcher.processes();
            String name = "--mode " + mode + " of the model " + model.label() + " on " + ranks + " processes";
            ModelCase.requireTrainable(name, model, ranks * stateFraction, Device.cpu());
        }
    }

    /** Returns the batch of random tokens on which this rank trains. */
    Batches.Batch batch(ProcessGroup group) {
        TransformerConfig config = model.config();
        return Batches.random(config.vocabSize(), model.batch(), config.contextLength(), group.device(), group.rank())
                .next();
    }

    /** Returns the setup of a case made by {@link #toCase}. */
    static RankCase of(Case c) {
        String policy = c.parameters().getOrDefault(CHECKPOINTING, "everything");
        TransformerConfig config = ModelCases.config(c).withCheckpointing(CheckpointPolicy.parse(policy));
        return new RankCase(
                new ModelOptions.Model(c.text("size"), config, c.integer("batch")),
                Precision.parse(c.text("dtype")),
                CollectiveBackend.parse(c.text("backend")),
                c.integer("nodes"),
                c.integer("processes"),
                c.text("mode"),
                Double.parseDouble(c.text("bucket_mb")),
                c.integer("round"),
                Integer.parseInt(c.parameters().getOrDefault(LOSS_ROWS, "0")));
    }
}
