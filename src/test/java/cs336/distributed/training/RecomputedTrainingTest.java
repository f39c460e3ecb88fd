package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.Optimizer;
import cs336.basics.Sgd;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.bench.ToyTraining;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Data-parallel training of a model with activation checkpointing, next to a single process without it. */
class RecomputedTrainingTest {
    private static final int STEPS = 3;

    /** Returns the largest difference between the weights of both trainings, by policy and strategy. */
    public static final class BothTrainings implements RankProgram<Long, LinkedHashMap<String, Double>> {
        @Override
        public LinkedHashMap<String, Double> run(ProcessGroup group, Long seed) {
            var differences = new LinkedHashMap<String, Double>();
            for (CheckpointPolicy policy :
                    List.of(CheckpointPolicy.recursive(), CheckpointPolicy.allButFeedForward())) {
                for (ModelEdition edition : ModelEdition.values()) {
                    var config = TransformerConfig.builder()
                            .edition(edition)
                            .vocabSize(40)
                            .contextLength(8)
                            .dModel(8)
                            .numLayers(5)
                            .numHeads(2)
                            .dFf(16)
                            .normalization("rmsnorm")
                            .attention("plain")
                            .build();
                    for (Strategy strategy : List.of(
                            Strategy.naive(), Strategy.flat(), Strategy.overlapped(), Strategy.bucketed(0.002))) {
                        differences.put(
                                policy + " " + edition + " " + strategy,
                                difference(group, config, policy, seed, model -> {
                                    var ddp = new DistributedDataParallel(model, group, strategy);
                                    return new ParallelTraining(ddp, new Sgd(model.namedParameters(), 0.1, 0));
                                }));
                    }
                    differences.put(
                            policy + " " + edition + " ZeRO stage 1", difference(group, config, policy, seed, model -> {
                                var optimizer = new ShardedOptimizer<>(
                                        model.namedParameters(),
                                        AdamW::new,
                                        AdamWSettings.of(0.01),
                                        group,
                                        Sharding.allGather(0.002));
                                optimizer.overlapWith(model);
                                return new ParallelTraining(
                                        new DistributedDataParallel(model, group, optimizer), optimizer);
                            }));
                }
            }
            return differences;
        }

        private record ParallelTraining(DistributedDataParallel ddp, Optimizer optimizer) {}

        private interface Setup {
            ParallelTraining of(TransformerLM model);
        }

        private static double difference(
                ProcessGroup group, TransformerConfig config, CheckpointPolicy policy, long seed, Setup setup) {
            Device device = group.device();
            Torch.seed(seed);
            try (var scope = MemoryScope.open();
                    var alone = new TransformerLM(config, device, DType.FLOAT64);
                    var model = new TransformerLM(config.withCheckpointing(policy), device, DType.FLOAT64)) {
                model.load(alone.namedParameters());
                ParallelTraining training = setup.of(model);
                try (var ddp = training.ddp;
                        var optimizer = training.optimizer;
                        var optimizerAlone = optimizer instanceof Sgd
                                ? new Sgd(alone.namedParameters(), 0.1, 0)
                                : new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
                    Batches batches =
                            Batches.random(config.vocabSize(), 2 * group.size(), config.contextLength(), device, seed);
                    for (int step = 0; step < STEPS; step++) {
                        Batches.Batch batch = batches.next();
                        Tensor inputs = batch.inputs().narrow(0, 2L * group.rank(), 2);
                        Tensor targets = batch.targets().narrow(0, 2L * group.rank(), 2);
                        Backward.of(Losses.crossEntropy(ddp.forward(inputs), targets))
                                .run();
                        ddp.finishGradientSynchronization();
                        Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets())
                                .backward();
                        for (Optimizer each : List.of(optimizer, optimizerAlone)) {
                            each.step();
                            each.zeroGrad();
                        }
                    }
                    if (optimizer instanceof ShardedOptimizer<?> sharded) {
                        sharded.awaitParameters();
                    }
                    return ToyTraining.difference(model, alone);
                }
            }
        }
    }

    @Test
    void twoProcessesTrainLikeOneWithoutCheckpointing() throws InterruptedException {
        requireSame(Launcher.of(2));
    }

    @Test
    @Tag("gpu")
    void oneProcessWithNcclTrainsLikeOneWithoutCheckpointing() throws InterruptedException {
        requireSame(Launcher.of(Math.min(2, Device.cudaCount())).backend(CollectiveBackend.NCCL));
    }

    private static void requireSame(Launcher launcher) throws InterruptedException {
        long seed = System.nanoTime();
        List<LinkedHashMap<String, Double>> ranks = launcher.threads(1).run(BothTrainings.class, seed);
        var wrong = new ArrayList<String>();
        for (Map<String, Double> rank : ranks) {
            assertEquals(20, rank.size());
            rank.forEach((name, difference) -> {
                if (!(difference < 1e-9)) {
                    wrong.add(name + ": " + difference);
                }
            });
        }
        assertTrue(wrong.isEmpty(), "seed " + seed + ": " + wrong);
    }
}
