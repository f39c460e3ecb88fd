package cs336.scaling.memory;

import static cs336.scaling.memory.ModelTensors.WIDE;
import static cs336.scaling.memory.ModelTensors.joined;

import cs336.basics.TransformerConfig;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.LiveActivations;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.List;

/** The tensors that the layers of a model save for the backward pass, with and without activation checkpointing. */
final class SavedTensors {
    static final String LOG_PROBABILITIES = "log-probabilities";

    private final ModelTensors model;
    private final TransformerConfig config;
    private final DType autocast;
    private final DType residual;
    private final int lossRows;

    /** @param lossRows as in {@link ModelMemory} */
    SavedTensors(ModelTensors model, int lossRows) {
        this.model = model;
        this.lossRows = lossRows;
        config = model.config();
        autocast = model.autocast();
        residual = model.residual();
    }

    /** Returns the tensors that one block saves for its backward pass. */
    List<TensorMemory> keptByBlock() {
        return keptByBlock(plan().recomputesElementwise());
    }

    List<TensorMemory> keptByBlock(boolean recomputesElementwise) {
        return joined(keptByAttention(recomputesElementwise), keptByFeedForward(recomputesElementwise));
    }

    /** Returns the tensors that the whole forward pass saves for the backward pass: blocks, last layers and loss. */
    List<TensorMemory> kept() {
        LiveActivations live = plan().afterForward();
        var kept = new ArrayList<>(activations(live));
        kept.addAll(weightCasts(live));
        if (model.is2024()) {
            kept.add(model.positions());
        }
        kept.addAll(keptByHead());
        return kept;
    }

    /** @param recomputes whether the results of normalizations and activation functions are recomputed */
    List<TensorMemory> keptByAttention(boolean recomputes) {
        if (model.isStreaming()) {
            List<TensorMemory> kept = keptUpToAttention(recomputes);
            // The tiled attention of the CPU is the only one that does not write the layout of output_proj's input.
            boolean copied = model.on() == DeviceKind.CPU && !config.attention().equals("sdpa");
            return copied ? joined(kept, List.of(model.rows("input of output_proj", autocast))) : kept;
        }
        return joined(
                keptUpToAttention(recomputes),
                model.probabilitiesCast(),
                List.of(model.rows("values, per head", autocast), model.rows("input of output_proj", autocast)));
    }

    /** Returns the saved tensors up to the softmax, or up to the output of a streaming attention. */
    List<TensorMemory> keptUpToAttention(boolean recomputes) {
        var kept = new ArrayList<>(recomputes ? List.of(input("ln1")) : keptByNorm("ln1"));
        if (!recomputes) {
            kept.addAll(inputs("q_proj, k_proj, v_proj", 3));
        }
        if (model.isStreaming()) {
            kept.add(new TensorMemory("queries, keys, values", "N × D", autocast, 3, model.rows()));
            kept.add(model.rows("output of the attention, input of output_proj", autocast));
            kept.add(new TensorMemory("log-sum-exp of scores", "N × H", WIDE, 1, model.tokens() * config.numHeads()));
        } else {
            kept.add(model.rows("queries, scaled, per head", autocast));
            kept.add(model.rows("keys, per head", autocast));
            kept.add(model.probabilities());
        }
        return kept;
    }

    /** @param recomputes whether the results of the normalization and the activation function are recomputed */
    List<TensorMemory> keptByFeedForward(boolean recomputes) {
        if (recomputes) {
            return joined(List.of(input("ln2")), inputsOfActivation());
        }
        var kept = new ArrayList<>(keptByNorm("ln2"));
        kept.addAll(model.is2024() ? inputs("w1", 1) : inputs("w1, w3", 2));
        kept.addAll(innerOfFeedForward());
        return kept;
    }

    private List<TensorMemory> inputsOfActivation() {
        return model.is2024()
                ? List.of(model.inner("output of w1"))
                : List.of(model.inner("output of w1"), model.inner("output of w3"));
    }

    List<TensorMemory> innerOfFeedForward() {
        return model.is2024()
                ? List.of(model.inner("output of w1"), model.inner("gelu(w1 x), input of w2"))
                : joined(
                        List.of(model.inner("output of w1")),
                        model.isFused() ? List.of() : List.of(model.inner("silu(w1 x)")),
                        List.of(model.inner("output of w3"), model.inner("silu(w1 x) w3 x, input of w2")));
    }

    private List<TensorMemory> keptByHead() {
        var kept = new ArrayList<>(keptByNorm("ln_final"));
        if (lossRows > 0) {
            kept.add(model.rows("gradient of lm_head's input, saved by the loss", autocast)
                    .as(TensorPurpose.LOGITS_AND_LOSS));
            kept.add(model.weightOfHead("gradient of lm_head's weight, saved by the loss", WIDE));
            return kept;
        }
        kept.addAll(inputs("lm_head", 1));
        kept.addAll(model.weightCastOfHead());
        kept.add(model.vocabulary("logits", autocast));
        kept.add(model.vocabulary(LOG_PROBABILITIES, WIDE));
        return kept;
    }

    private List<TensorMemory> keptByNorm(String layer) {
        TensorMemory statistic = new TensorMemory(layer + ": 1 / rms", "N", WIDE, 1, model.tokens());
        return switch (config.normalization()) {
            case "rmsnorm-fused" -> List.of(input(layer));
            case "layernorm" ->
                List.of(input(layer), new TensorMemory(layer + ": mean, 1 / deviation", "N", WIDE, 2, model.tokens()));
            default ->
                List.of(
                        residual == WIDE ? input(layer) : model.rows("input of " + layer + " in fp32", WIDE),
                        model.rows(layer + ": x / rms", WIDE),
                        statistic);
        };
    }

    private TensorMemory input(String layer) {
        return model.rows("input of " + layer + ": the residual stream", residual);
    }

    /**
     * Returns the saved inputs of linear layers with a common input. In fp32 they share one tensor; under autocast each
     * layer saves its own cast, unless the layers are fused.
     */
    private List<TensorMemory> inputs(String layers, int count) {
        return model.isCast()
                ? List.of(new TensorMemory(
                        "inputs of " + layers + ", cast", "N × D", autocast, model.isFused() ? 1 : count, model.rows()))
                : List.of(model.rows("input of " + layers, residual));
    }

    /**
     * Returns autocast's casts of the weights. They live until the autocast scope ends, and in the graph until the
     * layer's backward pass.
     */
    List<TensorMemory> weightCasts(int blocks) {
        return model.isCast() ? model.castsOf(blocks, true) : List.of();
    }

    /**
     * Returns {@link #weightCasts} of the blocks that keep activations; those of recomputed layers are freed. If
     * elementwise results are recomputed, only the cast of output_proj's weight is kept: the other linear layers are
     * parts of recomputed functions.
     */
    List<TensorMemory> weightCasts(LiveActivations live) {
        if (!model.isCast()) {
            return List.of();
        }
        if (live.plan().recomputesElementwise()) {
            long blocks = (long) live.blocks() + live.blocksWithoutFeedForward();
            long d = config.dModel();
            return blocks == 0
                    ? List.of()
                    : List.of(ModelTensors.weights("weights of output_proj, cast", "D × D", autocast, blocks, d * d));
        }
        return joined(model.castsOf(live.blocks(), true), model.castsOf(live.blocksWithoutFeedForward(), false));
    }

    /** Returns the casts of weights while the last block computes its attention. */
    List<TensorMemory> weightCastsInAttention(List<TensorMemory> ofOthers) {
        if (!model.isCast()) {
            return List.of();
        }
        long d = config.dModel();
        return joined(
                ofOthers,
                List.of(ModelTensors.weights("weights of q_proj, k_proj, v_proj, cast", "D × D", autocast, 3, d * d)));
    }

    CheckpointPlan plan() {
        CheckpointPlan plan = config.checkpointing().plan(config.numLayers());
        return model.on() == DeviceKind.CPU ? plan.withoutOffloading() : plan;
    }

    /** Returns whether a block recomputes the activation function of its feed-forward layer, but not the rest. */
    static boolean recomputesActivation(LiveActivations others) {
        return others.plan().recomputesElementwise(others.block())
                && !others.plan().recomputesFeedForward(others.block());
    }

    /** Returns the tensors of a block during its own backward pass. */
    List<TensorMemory> keptDuring(LiveActivations others) {
        return joined(
                keptByAttention(others.plan().recomputesElementwise(others.block())),
                keptByFeedForward(recomputesActivation(others)));
    }

    /** Returns the activations that other blocks keep. */
    List<TensorMemory> activations(LiveActivations others) {
        boolean recomputesElementwise = others.plan().recomputesElementwise();
        List<TensorMemory> withoutFeedForward =
                joined(keptByAttention(recomputesElementwise), List.of(model.rows("input of ln2", residual)));
        var kept = new ArrayList<TensorMemory>();
        keptByBlock(recomputesElementwise).forEach(tensor -> kept.add(tensor.times(others.blocks())));
        withoutFeedForward.forEach(tensor -> kept.add(tensor.times(others.blocksWithoutFeedForward())));
        inputsOfActivation().forEach(tensor -> kept.add(tensor.times(others.inTransfer())));
        kept.add(model.rows("input of recomputed blocks", residual).times(others.inputs()));
        kept.removeIf(tensor -> tensor.count() == 0);
        return kept;
    }
}
