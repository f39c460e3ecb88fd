package cs336.scaling.memory;

import static cs336.scaling.memory.ModelTensors.WIDE;
import static cs336.scaling.memory.ModelTensors.joined;

import cs336.basics.TransformerConfig;
import cs336.bench.Pass;
import cs336.checkpointing.LiveActivations;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** The tensors that are alive at the points of a training step where memory may peak. */
final class StepInventories {
    private static final String LOSS = "loss";
    private static final String LOGITS = "logits";
    private static final String START_OF_BACKWARD = "start of backward";
    private static final String BACKWARD_OF_HEAD = "backward of lm_head";

    private final ModelTensors model;
    private final SavedTensors saved;
    private final TransformerConfig config;
    private final DType autocast;
    private final DType residual;
    private final int lossRows;

    /** @param lossRows as in {@link ModelMemory} */
    StepInventories(ModelTensors model, int lossRows) {
        this.model = model;
        this.lossRows = lossRows;
        saved = new SavedTensors(model, lossRows);
        config = model.config();
        autocast = model.autocast();
        residual = model.residual();
    }

    /** Returns whether an inventory is that of a point at which the model computes with lm_head. */
    static boolean usesHead(MemoryInventory point) {
        return Set.of(LOSS, LOGITS, START_OF_BACKWARD, BACKWARD_OF_HEAD).contains(point.name());
    }

    /** Returns the inventories at the points of a pass where memory may peak, in order of time. */
    List<MemoryInventory> candidates(Pass pass) {
        return switch (pass) {
            case FORWARD ->
                List.of(
                        MemoryInventory.of(
                                attentionPoint(),
                                model.always(1),
                                embedded(),
                                saved.weightCastsInAttention(saved.weightCasts(config.numLayers() - 1)),
                                attentionOfForward(false)),
                        MemoryInventory.of(
                                "output of attention in the last block",
                                model.always(1),
                                embedded(),
                                saved.weightCastsInAttention(saved.weightCasts(config.numLayers() - 1)),
                                endOfAttention()),
                        MemoryInventory.of(
                                "end of the last block",
                                model.always(1),
                                embedded(),
                                saved.weightCasts(config.numLayers()),
                                endOfFeedForward()),
                        MemoryInventory.of(
                                LOGITS,
                                model.always(1),
                                embedded(),
                                saved.weightCasts(config.numLayers()),
                                model.weightCastOfHead(),
                                logitsWithoutGraph()));
            case FORWARD_GRAPH -> forwardWithGraph(model.always(1));
            case FORWARD_BACKWARD ->
                Stream.of(forwardWithGraph(model.always(2)), backward(model.always(2)))
                        .flatMap(List::stream)
                        .toList();
            case STEP -> {
                List<TensorMemory> held = joined(model.always(2), model.optimizerState());
                yield Stream.of(
                                forwardWithGraph(held),
                                backward(held),
                                List.of(MemoryInventory.of("optimizer", held, model.gradients())))
                        .flatMap(List::stream)
                        .toList();
            }
        };
    }

    // ---- forward pass ----

    /** Returns the logits while Java refers to them: none if the loss computes some rows at a time. */
    private List<TensorMemory> logits() {
        return lossRows > 0 ? List.of() : List.of(model.vocabulary("logits", autocast));
    }

    /**
     * Returns the embeddings that the model holds until it returns, if they are not counted elsewhere. In the 2025
     * model they are the saved input of the first block.
     */
    private List<TensorMemory> embedded() {
        return model.is2024()
                ? List.of(
                        model.rows("embeddings of tokens", WIDE),
                        new TensorMemory(
                                "embeddings of positions", "T × D", WIDE, 1, (long) model.context() * config.dModel()),
                        model.positions())
                : List.of();
    }

    private String attentionPoint() {
        return model.isStreaming() ? "attention of the last block" : "softmax of the last block";
    }

    /** Returns the tensors of a block during its softmax, or during a streaming attention. */
    private List<TensorMemory> attentionOfForward(boolean graph) {
        var alive = new ArrayList<TensorMemory>();
        if (graph) {
            alive.addAll(saved.keptUpToAttention(saved.plan().recomputesElementwise(config.numLayers() - 1)));
            if (model.isCast()) {
                alive.add(model.rows("output of ln1", WIDE));
            }
        } else {
            alive.add(model.rows("input of the block", residual));
            alive.add(model.rows("output of ln1", residual));
            if (!model.isStreaming()) {
                alive.add(model.probabilities());
            } else {
                alive.add(model.rows("output of the attention", autocast));
                if (model.isCast() && !model.is2024()) {
                    alive.add(new TensorMemory("queries, keys, cast", "N × D", autocast, 2, model.rows()));
                }
            }
        }
        alive.addAll(projected(graph && model.isStreaming()));
        if (model.isStreaming()) {
            return alive;
        }
        alive.add(model.attentionMatrix("scores", autocast));
        if (model.softmaxType() != autocast) {
            alive.add(model.attentionMatrix("scores, cast for the softmax", model.softmaxType()));
        }
        return alive;
    }

    private List<TensorMemory> endOfAttention() {
        if (model.isStreaming()) {
            return joined(attentionOfForward(false), List.of(model.rows("output of output_proj", autocast)));
        }
        var alive = new ArrayList<TensorMemory>();
        alive.add(model.rows("input of the block", residual));
        alive.add(model.rows("output of ln1", residual));
        alive.addAll(projected(false));
        alive.add(model.probabilities());
        alive.addAll(model.probabilitiesCast());
        if (model.batch() > 1) {
            alive.add(model.rows("values, per head", autocast));
        }
        alive.add(model.rows("output of the attention", autocast));
        return alive;
    }

    /**
     * Returns the projected queries, keys and values and, in the 2025 model, the rotated queries and keys.
     *
     * @param areSaved whether the inputs of the attention are counted among the saved tensors
     */
    private List<TensorMemory> projected(boolean areSaved) {
        if (model.is2024()) {
            return areSaved ? List.of() : List.of(model.projections(3));
        }
        var alive = new ArrayList<TensorMemory>();
        alive.add(model.projections(areSaved ? 2 : 3)); // the values are saved as projected
        boolean rotatesInFp32 = model.isNarrow() && !model.isFused();
        if (rotatesInFp32) {
            alive.add(new TensorMemory("queries, keys in fp32, before rotation", "N × D", WIDE, 2, model.rows()));
        }
        if (rotatesInFp32 || model.isCast()) {
            alive.add(new TensorMemory("queries, keys, rotated, in fp32", "N × D", WIDE, 2, model.rows()));
        }
        if (!areSaved && !model.isCast()) {
            alive.add(new TensorMemory("queries, keys, rotated", "N × D", autocast, 2, model.rows()));
        }
        return alive;
    }

    /** Returns the tensors of a block after its last matmul, without an autograd graph. */
    private List<TensorMemory> endOfFeedForward() {
        return joined(
                List.of(
                        model.rows("input of the block", residual),
                        model.rows("output of ln1", residual),
                        model.rows("output of the attention", autocast),
                        model.rows("residual stream after the attention", residual),
                        model.rows("output of ln2", residual),
                        model.rows("output of w2", autocast)),
                saved.innerOfFeedForward());
    }

    private List<TensorMemory> logitsWithoutGraph() {
        var alive = new ArrayList<TensorMemory>();
        alive.add(model.rows("input of ln_final", residual));
        alive.add(model.rows("output of ln_final", residual));
        if (model.isCast()) {
            alive.add(model.rows("output of ln_final, cast", autocast));
        }
        alive.add(model.vocabulary("logits", autocast));
        return alive;
    }

    private List<MemoryInventory> forwardWithGraph(List<TensorMemory> held) {
        LiveActivations last = saved.plan().backward().get(0); // also before its forward pass
        var loss = new ArrayList<>(saved.kept());
        if (lossRows > 0) {
            loss.addAll(chunkOfLoss());
        } else if (model.isNarrow()) {
            loss.add(model.vocabulary("logits in fp32", WIDE));
        }
        var points = new ArrayList<MemoryInventory>();
        for (LiveActivations others :
                saved.plan().backward()) { // also the activations of other blocks in the forward pass
            points.add(0, MemoryInventory.of("end of " + named("block", others), held, embedded(), endOfBlock(others)));
        }
        points.add(MemoryInventory.of(
                attentionPoint(),
                held,
                embedded(),
                saved.activations(last),
                last.plan().recomputesElementwise(last.block())
                        ? saved.weightCasts(last)
                        : saved.weightCastsInAttention(saved.weightCasts(last)),
                attentionOfForward(true)));
        points.add(MemoryInventory.of(LOSS, held, loss));
        return points;
    }

    /** Returns the temporary tensors of the loss while it computes the gradients of some rows of logits. */
    private List<TensorMemory> chunkOfLoss() {
        long elements = Math.min(lossRows, model.tokens()) * (long) config.vocabSize();
        var alive = new ArrayList<TensorMemory>();
        alive.add(model.rows("output of ln_final", residual));
        if (model.isCast()) {
            alive.add(model.rows("output of ln_final, cast", autocast));
        }
        alive.addAll(model.weightCastOfHead());
        if (!model.isNarrow()
                || model.on() == DeviceKind.CPU) { // the kernel for 16-bit logits on a GPU replaces them in place
            alive.add(new TensorMemory("probabilities of a chunk", "rows × V", WIDE, 1, elements)
                    .as(TensorPurpose.LOGITS_AND_LOSS));
        }
        alive.add(new TensorMemory("logits of a chunk, or their gradient", "rows × V", autocast, 1, elements)
                .as(TensorPurpose.LOGITS_AND_LOSS));
        return alive;
    }

    /** Returns the tensors alive after the last operation of a block that keeps its activations until then. */
    private List<TensorMemory> endOfBlock(LiveActivations others) {
        return joined(
                saved.activations(others),
                saved.weightCasts(others),
                saved.weightCasts(1),
                saved.keptDuring(others),
                List.of(
                        model.rows("output of the attention", autocast),
                        model.rows("output of w2", autocast),
                        model.rows("output of the block", residual)),
                model.isCast()
                        ? List.of(model.rows("output of ln1", WIDE), model.rows("output of ln2", WIDE))
                        : List.of());
    }

    // ---- backward pass ----

    private List<MemoryInventory> backward(List<TensorMemory> held) {
        var start = new ArrayList<>(saved.kept());
        if (lossRows > 0) {
            start.add(model.rows("gradient of lm_head's input", autocast));
            start.add(model.gradientOfHead(residual));
        } else {
            start.add(model.vocabulary("gradient of log-probabilities", WIDE));
            start.add(model.vocabulary("gradient of logits", WIDE));
        }
        var points = new ArrayList<MemoryInventory>();
        points.add(MemoryInventory.of(START_OF_BACKWARD, held, start));
        if (lossRows == 0) {
            points.add(MemoryInventory.of(BACKWARD_OF_HEAD, held, backwardOfHead()));
        }
        for (LiveActivations others : saved.plan().backward()) {
            points.add(MemoryInventory.of(
                    "backward of " + named("feed-forward layer", others), held, backwardOfFeedForward(others)));
            points.add(MemoryInventory.of(
                    "backward of " + named(model.isStreaming() ? "attention" : "softmax", others),
                    held,
                    backwardOfAttention(others)));
        }
        points.add(MemoryInventory.of("end of backward", held, endOfBackward()));
        return points;
    }

    private String named(String part, LiveActivations others) {
        int block = others.block();
        if (block == config.numLayers() - 1) {
            return "the last " + part;
        }
        return block == 0 ? "the first " + part : "the " + part + " of block " + block;
    }

    /** Returns the tensors alive when both gradients of lm_head's matmul exist. */
    private List<TensorMemory> backwardOfHead() {
        var alive = new ArrayList<TensorMemory>();
        saved.kept().stream()
                .filter(tensor -> !tensor.name().equals(SavedTensors.LOG_PROBABILITIES))
                .forEach(alive::add);
        alive.add(model.vocabulary("gradient of logits", autocast));
        alive.add(model.rows("gradient of lm_head's input", autocast));
        alive.add(model.gradientOfHead(autocast));
        return alive;
    }

    /** Returns the tensors alive after the backward pass of a block's gate multiplication (2025) or GELU (2024). */
    private List<TensorMemory> backwardOfFeedForward(LiveActivations others) {
        int block = others.block();
        var alive = new ArrayList<TensorMemory>(saved.activations(others));
        alive.addAll(saved.keptDuring(others));
        alive.addAll(saved.weightCasts(others));
        alive.addAll(saved.weightCasts(1));
        alive.addAll(recomputations(others.depth(), others.laterInRecomputation()));
        alive.addAll(logits());
        alive.addAll(model.gradientsAbove(block, 1, 0, 0));
        alive.add(model.rows("gradient of the residual stream", residual));
        // The gradients of the activation's inputs and output exist, and the input of w2 has been freed.
        int gradients = model.is2024() ? 2 : 3;
        boolean recomputed = SavedTensors.recomputesActivation(others);
        String name = "gradients inside the feed-forward layer" + (recomputed ? "" : ", minus the input of w2");
        alive.add(new TensorMemory(
                name, "N × F", autocast, recomputed ? gradients : gradients - 1, model.innerElements()));
        if (recomputed && !model.is2024() && !model.isFused()) {
            alive.add(model.inner("silu(w1 x), recomputed"));
        }
        return alive;
    }

    private List<TensorMemory> backwardOfAttention(LiveActivations others) {
        int block = others.block();
        var alive = new ArrayList<TensorMemory>(saved.activations(others));
        alive.addAll(saved.keptUpToAttention(others.plan().recomputesElementwise(block)));
        alive.addAll(saved.weightCasts(others));
        alive.addAll(saved.weightCasts(1));
        alive.addAll(recomputations(others.depth(), others.laterInRecomputation()));
        alive.addAll(logits());
        alive.addAll(model.gradientsAbove(block, model.matrices(), 1, 1));
        alive.add(model.rows("gradient of the residual stream", residual));
        if (model.isStreaming()) {
            alive.add(model.rows("gradient of the output", autocast));
            alive.add(new TensorMemory("gradients of queries, keys, values", "N × D", autocast, 3, model.rows()));
            if (model.isNarrow()) {
                alive.add(model.rows("gradient of queries, accumulated", WIDE));
            }
            return alive;
        }
        alive.add(model.rows("gradient of values", autocast));
        alive.add(model.attentionMatrix("gradient of probabilities", model.softmaxType()));
        alive.add(model.attentionMatrix("gradient of scores", model.softmaxType()));
        if (model.on() == DeviceKind.CUDA) {
            alive.add(model.attentionMatrix("gradient × probabilities", model.softmaxType()));
        }
        return alive;
    }

    private List<TensorMemory> endOfBackward() {
        var alive = new ArrayList<TensorMemory>();
        alive.addAll(logits());
        alive.addAll(model.gradients());
        if (model.is2024()) {
            alive.add(model.gradient("gradient of the tied embedding table, as embedding"));
        }
        if (model.is2024() && !model.isNarrow()) {
            // The gradient of the head is a transposed view; the other gradient cannot be accumulated in place.
            alive.add(model.gradient("sum of its two gradients"));
        } else {
            alive.add(model.rows("gradient of the residual stream", residual));
        }
        return alive;
    }

    /**
     * Returns the tensors that recomputed functions hold during their backward pass: their outputs, and the gradients
     * of the outputs except the current gradient of the residual stream.
     *
     * @param depth number of outputs
     * @param gradients number of gradients
     */
    private List<TensorMemory> recomputations(int depth, int gradients) {
        var held = new ArrayList<TensorMemory>();
        held.add(model.rows("output of recomputed blocks", residual).times(depth));
        held.add(model.rows("gradient of this output", residual).times(gradients));
        held.removeIf(tensor -> tensor.count() == 0);
        return held;
    }
}
