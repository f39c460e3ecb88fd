package cs336.scaling.memory;

import cs336.basics.Fuser;
import cs336.basics.ModelEdition;
import cs336.basics.Normalization;
import cs336.basics.TransformerConfig;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The shapes and types of a model's tensors in training: activations, weights and their casts, gradients and optimizer
 * state. {@link ModelMemory} explains the components and the letters of the shapes.
 */
record ModelTensors(TransformerConfig config, int batch, DType autocast, DeviceKind on, DType residual) {
    static final DType WIDE = DType.FLOAT32;
    static final String PLAIN = "plain";

    static final Set<String> STREAMING =
            Set.of("flash", "flash-deterministic", "flash-mma", "flash-tf32", "flash-3xtf32", "flash-tiled", "sdpa");

    TensorMemory probabilities() {
        return attentionMatrix("probabilities", softmaxType());
    }

    /** Returns the cast of the probabilities if the softmax is fp32 and the matmul with V has 16 bits. */
    List<TensorMemory> probabilitiesCast() {
        return softmaxType() == autocast
                ? List.of()
                : List.of(attentionMatrix("probabilities, cast for the matmul with V", autocast));
    }

    List<TensorMemory> castsOf(int blocks, boolean feedForward) {
        long d = config.dModel();
        var casts = new ArrayList<TensorMemory>();
        if (blocks > 0) {
            casts.add(weights("weights of attention, cast", "D × D", autocast, 4L * blocks, d * d));
            if (feedForward) {
                casts.add(weights(
                        "weights of the feed-forward layer, cast",
                        "D × F",
                        autocast,
                        (long) matrices() * blocks,
                        d * config.dFf()));
            }
        }
        return casts;
    }

    List<TensorMemory> weightCastOfHead() {
        return isCast()
                ? List.of(weights("weight of lm_head, cast", "V × D", autocast, 1, vocabularyMatrix()))
                : List.of();
    }

    TensorMemory positions() {
        return new TensorMemory("positions", "T", DType.INT64, 1, context());
    }

    TensorMemory projections(int count) {
        return new TensorMemory("queries, keys, values, as projected", "N × D", autocast, count, rows());
    }

    TensorMemory gradient(String name) {
        return new TensorMemory(name, "V × D", WIDE, 1, vocabularyMatrix()).as(TensorPurpose.GRADIENTS);
    }

    TensorMemory gradientOfHead(DType dtype) {
        return new TensorMemory("gradient of lm_head's weight", "V × D", dtype, 1, vocabularyMatrix())
                .as(TensorPurpose.GRADIENTS);
    }

    /**
     * Returns the gradients that exist during the backward pass of a block: those of the head and of later blocks, and
     * some of the block itself.
     *
     * @param feedForward number of the block's D × F matrices that have a gradient
     * @param norms number of its normalizations that have one
     * @param projections number of its D × D matrices that have one
     */
    List<TensorMemory> gradientsAbove(int block, int feedForward, int norms, int projections) {
        long later = config.numLayers() - 1L - block;
        return parameterTensors("gradients", TensorPurpose.GRADIENTS, new long[] {
            1, 4 * later + projections, matrices() * later + feedForward, 2 * later + norms + 1
        });
    }

    List<TensorMemory> gradients() {
        return joined(
                wholeModel("gradients", TensorPurpose.GRADIENTS),
                positionEmbeddings("gradient", TensorPurpose.GRADIENTS));
    }

    /** Returns the parameters, the buffers of the model, the batch and the cuBLAS workspaces. */
    List<TensorMemory> always(int cublasThreads) {
        var held = new ArrayList<TensorMemory>();
        held.addAll(wholeModel("parameters", TensorPurpose.PARAMETERS));
        held.addAll(positionEmbeddings("parameters", TensorPurpose.PARAMETERS));
        held.add(new TensorMemory("token ids and targets", "N", DType.INT64, 2, tokens()));
        if (!is2024()) {
            held.add(
                    new TensorMemory("rotary position table", "T × D/H", WIDE, 1, (long) context() * config.headDim()));
        }
        if (!isStreaming()) {
            held.add(new TensorMemory("mask", "T × T", autocast, 1, (long) context() * context()));
        }
        if (on == DeviceKind.CUDA) {
            held.add(new TensorMemory(
                            "cuBLAS workspace", "", WIDE, cublasThreads, ModelMemory.CUBLAS_WORKSPACE / WIDE.bytes())
                    .as(TensorPurpose.WORKSPACES));
        }
        return held;
    }

    List<TensorMemory> optimizerState() {
        var moments = new ArrayList<TensorMemory>();
        for (String name : List.of("first moment of AdamW", "second moment of AdamW")) {
            moments.addAll(wholeModel(name, TensorPurpose.OPTIMIZER_STATE));
            moments.addAll(positionEmbeddings(name, TensorPurpose.OPTIMIZER_STATE));
        }
        return moments;
    }

    /** Returns fp32 tensors of the shapes of all parameters except position embeddings. */
    private List<TensorMemory> wholeModel(String name, TensorPurpose purpose) {
        long blocks = config.numLayers();
        return parameterTensors(
                name, purpose, new long[] {is2024() ? 1 : 2, 4 * blocks, matrices() * blocks, 2 * blocks + 1});
    }

    private List<TensorMemory> positionEmbeddings(String name, TensorPurpose purpose) {
        return is2024()
                ? List.of(new TensorMemory(
                        name + " of position embeddings",
                        "T × D",
                        WIDE,
                        1,
                        (long) context() * config.dModel(),
                        purpose))
                : List.of();
    }

    /**
     * Returns fp32 tensors of the shapes of parameters.
     *
     * @param counts numbers of vocabulary matrices, projections of the attention, matrices of feed-forward layers, and
     *     normalizations
     */
    private List<TensorMemory> parameterTensors(String name, TensorPurpose purpose, long[] counts) {
        long d = config.dModel();
        int gains = Normalization.named(config.normalization()).parametersPerFeature();
        return Stream.of(
                        new TensorMemory(
                                name + " of embeddings and head",
                                "V × D",
                                WIDE,
                                counts[0],
                                vocabularyMatrix(),
                                purpose),
                        new TensorMemory(name + " of attention layers", "D × D", WIDE, counts[1], d * d, purpose),
                        new TensorMemory(
                                name + " of feed-forward layers", "D × F", WIDE, counts[2], d * config.dFf(), purpose),
                        new TensorMemory(name + " of normalizations", "D", WIDE, gains * counts[3], d, purpose))
                .filter(tensor -> tensor.count() > 0)
                .toList();
    }

    boolean is2024() {
        return config.edition() == ModelEdition.SPRING_2024;
    }

    boolean isNarrow() {
        return autocast.bytes() < WIDE.bytes();
    }

    /** Returns whether autocast casts the inputs and weights of matmuls. */
    boolean isCast() {
        return isNarrow() && residual == WIDE;
    }

    /** Returns whether generated kernels replace elementwise operators, which exist on CUDA only. */
    boolean isFused() {
        return on == DeviceKind.CUDA && !config.fusion().equals(Fuser.NONE);
    }

    boolean isStreaming() {
        return STREAMING.contains(config.attention());
    }

    DType softmaxType() {
        return on == DeviceKind.CUDA && isCast() ? WIDE : autocast;
    }

    int context() {
        return config.contextLength();
    }

    long tokens() {
        return (long) batch * context();
    }

    long rows() {
        return tokens() * config.dModel();
    }

    long innerElements() {
        return tokens() * config.dFf();
    }

    private long vocabularyMatrix() {
        return config.vocabularyMatrixElements();
    }

    int matrices() {
        return config.edition().feedForwardMatrices();
    }

    TensorMemory rows(String name, DType dtype) {
        return new TensorMemory(name, "N × D", dtype, 1, rows());
    }

    TensorMemory inner(String name) {
        return new TensorMemory(name, "N × F", autocast, 1, innerElements());
    }

    TensorMemory attentionMatrix(String name, DType dtype) {
        return new TensorMemory(
                name, "B × H × T × T", dtype, 1, Math.multiplyExact(tokens() * context(), (long) config.numHeads()));
    }

    static TensorMemory weights(String name, String shape, DType dtype, long count, long elements) {
        return new TensorMemory(name, shape, dtype, count, elements).as(TensorPurpose.PARAMETERS);
    }

    TensorMemory weightOfHead(String name, DType dtype) {
        return new TensorMemory(name, "V × D", dtype, 1, vocabularyMatrix()).as(TensorPurpose.LOGITS_AND_LOSS);
    }

    TensorMemory vocabulary(String name, DType dtype) {
        return new TensorMemory(name, "N × V", dtype, 1, tokens() * config.vocabSize())
                .as(TensorPurpose.LOGITS_AND_LOSS);
    }

    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    static List<TensorMemory> joined(List<TensorMemory>... lists) {
        return Stream.of(lists).flatMap(List::stream).toList();
    }
}
