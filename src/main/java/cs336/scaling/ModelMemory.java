package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * How much memory a {@link cs336.basics.TransformerLM} needs, copy by copy, in closed form: parameters, gradients,
 * AdamW's moments, what the graph keeps of each layer, and what else is alive at the moments when most is. For RMSNorm
 * and attention in plain operations.
 *
 * <p>Parameters, gradients and moments are fp32. Under autocast matrix products take and give the narrow type,
 * everything else stays as it is described in {@link #keptByBlock}. A tensor that Java still refers to counts as alive:
 * a module holds what it has made until it returns, the logits live to the end of the backward pass.
 *
 * @param config the model; {@code config.contextLength()} is T, the length of the sequences
 * @param batch B, sequences
 * @param autocast type of matrix products: fp32, or bf16 or fp16 under autocast
 * @param on kind of device: on CUDA autocast takes the softmax in fp32, on the CPU in the narrow type; on CUDA the
 *     softmax makes one copy more on its way back; on CUDA libraries have workspaces
 */
public record ModelMemory(TransformerConfig config, int batch, DType autocast, DeviceKind on) {
    /**
     * What cuBLAS takes from PyTorch's allocator, once for each thread that multiplies matrices: PyTorch's default on
     * Hopper. Elsewhere it is 8 MiB.
     */
    public static final long CUBLAS_WORKSPACE = 32L << 20;

    private static final DType WIDE = DType.FLOAT32;

    /**
     * @throws IllegalArgumentException if the model has another normalisation or attention than said, or a size is
     *     below 1
     */
    public ModelMemory {
        ArgumentCheck.atLeast("batch", 1, batch);
        if (!config.normalization().equals("rmsnorm") || !config.attention().equals("plain")) {
            throw new IllegalArgumentException("only the memory of rmsnorm and plain attention is predicted, not of "
                    + config.normalization() + " and " + config.attention());
        }
        if (autocast.bytes() > WIDE.bytes()) {
            throw new IllegalArgumentException("autocast must be fp32, bf16 or fp16, not " + autocast);
        }
    }

    /**
     * Tensors of one kind that are alive.
     *
     * @param name what they are
     * @param shape in the letters B, T, D, F, H, V; N is BT, P the number of parameters
     * @param dtype of their numbers
     * @param count how many such tensors
     * @param numbers in each
     */
    public record Copy(String name, String shape, DType dtype, long count, long numbers) {
        /** All of them together. */
        public long bytes() {
            return Math.multiplyExact(Math.multiplyExact(count, numbers), (long) dtype.bytes());
        }

        private Copy times(long n) {
            return new Copy(name, shape, dtype, n * count, numbers);
        }
    }

    /**
     * What is alive at one time.
     *
     * @param name when that is
     * @param copies all tensors
     */
    public record Moment(String name, List<Copy> copies) {
        public Moment {
            copies = List.copyOf(copies);
        }

        /** All copies together. */
        public long bytes() {
            return sum(copies);
        }

        /**
         * A row a copy: {@code copy}, {@code shape}, {@code dtype}, {@code count}, {@code MiB}; a last row with the
         * sum.
         */
        public Table table() {
            var table = Table.create(
                    name,
                    StringColumn.create("copy"),
                    StringColumn.create("shape"),
                    StringColumn.create("dtype"),
                    LongColumn.create("count"),
                    DoubleColumn.create("MiB"));
            for (Copy c : copies) {
                row(table, c.name, c.shape, c.dtype.toString(), c.count, c.bytes());
            }
            row(table, "sum", "", "", copies.stream().mapToLong(Copy::count).sum(), bytes());
            return table;
        }

        private static void row(Table table, String copy, String shape, String dtype, long count, long bytes) {
            table.stringColumn(0).append(copy);
            table.stringColumn(1).append(shape);
            table.stringColumn(2).append(dtype);
            table.longColumn(3).append(count);
            table.doubleColumn(4).append(bytes / (double) (1 << 20));
        }
    }

    /** The moment of a pass when most is alive, in its second run, when AdamW's moments exist already. */
    public Moment peak(Pass pass) {
        return moments(pass).stream()
                .max(Comparator.comparingLong(Moment::bytes))
                .orElseThrow();
    }

    /** The moments of a pass that may be its peak, in the order of time. */
    public List<Moment> moments(Pass pass) {
        return switch (pass) {
            case FORWARD ->
                List.of(
                        moment(
                                "softmax of the last block",
                                always(1),
                                embedded(),
                                castsInAttention(),
                                softmaxOfForward(false)),
                        moment(
                                "product with V of the last block",
                                always(1),
                                embedded(),
                                castsInAttention(),
                                productWithValues()),
                        moment(
                                "end of the last block",
                                always(1),
                                embedded(),
                                weightCasts(config.numLayers()),
                                endOfFeedForward()),
                        moment(
                                "logits",
                                always(1),
                                embedded(),
                                weightCasts(config.numLayers()),
                                weightCastOfHead(),
                                logitsWithoutGraph()));
            case FORWARD_GRAPH -> forwardWithGraph(always(1));
            case FORWARD_BACKWARD ->
                Stream.of(forwardWithGraph(always(2)), backward(always(2)))
                        .flatMap(List::stream)
                        .toList();
            case STEP -> {
                List<Copy> held = joined(always(2), optimizerState());
                yield Stream.of(
                                forwardWithGraph(held),
                                backward(held),
                                List.of(moment("optimizer", held, List.of(gradients(config.parameterCount())))))
                        .flatMap(List::stream)
                        .toList();
            }
        };
    }

    /**
     * What is alive between two passes, gradients and the optimizer's state aside: after a backward pass, two threads
     * have called cuBLAS.
     */
    public List<Copy> idle() {
        return always(2);
    }

    /** What the graph keeps of one block for its backward pass. */
    public List<Copy> keptByBlock() {
        return joined(keptByAttention(), keptByFeedForward());
    }

    /**
     * All that is alive between forward and backward pass on account of the forward pass: blocks, last layers, loss.
     */
    public List<Copy> kept() {
        var kept = new ArrayList<Copy>();
        keptByBlock().forEach(copy -> kept.add(copy.times(config.numLayers())));
        kept.addAll(weightCasts(config.numLayers()));
        if (is2024()) {
            kept.add(positions());
        }
        kept.addAll(keptByHead());
        return kept;
    }

    /** The bytes of {@link #kept}. */
    public long keptBytes() {
        return sum(kept());
    }

    /** One tensor of the residual stream, [B, T, D] in fp32. */
    public Copy residualStream() {
        return rows("residual stream", WIDE);
    }

    // ---- kept for the backward pass ----

    private List<Copy> keptByAttention() {
        return joined(
                keptUpToSoftmax(),
                probabilitiesCast(),
                List.of(rows("values, head by head", autocast), rows("input of output_proj", autocast)));
    }

    private List<Copy> keptUpToSoftmax() {
        var kept = new ArrayList<Copy>();
        kept.add(rows("input of ln1: the residual stream", WIDE));
        kept.add(rows("ln1: x / rms", WIDE));
        kept.add(new Copy("ln1: 1 / rms", "N", WIDE, 1, tokens()));
        kept.addAll(inputs("q_proj, k_proj, v_proj", 3));
        kept.add(rows("queries, scaled, head by head", autocast));
        kept.add(rows("keys, head by head", autocast));
        kept.add(probabilities());
        return kept;
    }

    private Copy probabilities() {
        return pairs("probabilities", ofSoftmax());
    }

    /** Where the softmax gives fp32 and the product with V takes a narrow type. */
    private List<Copy> probabilitiesCast() {
        return ofSoftmax() == autocast
                ? List.of()
                : List.of(pairs("probabilities, cast for the product with V", autocast));
    }

    private List<Copy> keptByFeedForward() {
        var kept = new ArrayList<Copy>();
        kept.add(rows("input of ln2: the residual stream", WIDE));
        kept.add(rows("ln2: x / rms", WIDE));
        kept.add(new Copy("ln2: 1 / rms", "N", WIDE, 1, tokens()));
        kept.addAll(is2024() ? inputs("w1", 1) : inputs("w1, w3", 2));
        kept.addAll(innerOfFeedForward());
        return kept;
    }

    private List<Copy> innerOfFeedForward() {
        return is2024()
                ? List.of(inner("output of w1"), inner("gelu(w1 x), input of w2"))
                : List.of(
                        inner("output of w1"),
                        inner("silu(w1 x)"),
                        inner("output of w3"),
                        inner("silu(w1 x) w3 x, input of w2"));
    }

    private List<Copy> keptByHead() {
        var kept = new ArrayList<Copy>();
        kept.add(rows("input of ln_final: the residual stream", WIDE));
        kept.add(rows("ln_final: x / rms", WIDE));
        kept.add(new Copy("ln_final: 1 / rms", "N", WIDE, 1, tokens()));
        kept.addAll(inputs("lm_head", 1));
        kept.addAll(weightCastOfHead());
        kept.add(vocabulary("logits", autocast));
        kept.add(vocabulary("log-probabilities", WIDE));
        return kept;
    }

    /** Layers in fp32 share their input; under autocast each makes its own narrow copy of it. */
    private List<Copy> inputs(String layers, int count) {
        return narrow()
                ? List.of(new Copy("inputs of " + layers + ", cast", "N × D", autocast, count, rows()))
                : List.of(rows("input of " + layers, WIDE));
    }

    /**
     * Autocast's casts of the weights, which stay until the scope ends, and in the graph until the layer's backward
     * pass.
     */
    private List<Copy> weightCasts(int blocks) {
        return narrow()
                ? List.of(new Copy(
                        "weights of a block, cast", "4D² + " + matrices() + "DF", autocast, blocks, blockMatrices()))
                : List.of();
    }

    /** The same when the last block is in its attention. */
    private List<Copy> castsInAttention() {
        if (!narrow()) {
            return List.of();
        }
        long d = config.dModel();
        Copy projections = new Copy("weights of q_proj, k_proj, v_proj, cast", "D × D", autocast, 3, d * d);
        return joined(weightCasts(config.numLayers() - 1), List.of(projections));
    }

    private List<Copy> weightCastOfHead() {
        return narrow()
                ? List.of(new Copy("weight of lm_head, cast", "V × D", autocast, 1, vocabularyMatrix()))
                : List.of();
    }

    // ---- alive for a short time in the forward pass ----

    /**
     * What the model holds of its embeddings until it returns; with rotary positions, they are the input of the first
     * block.
     */
    private List<Copy> embedded() {
        return is2024()
                ? List.of(
                        rows("embeddings of tokens", WIDE),
                        new Copy("embeddings of positions", "T × D", WIDE, 1, (long) context() * config.dModel()),
                        positions())
                : List.of();
    }

    private Copy positions() {
        return new Copy("positions", "T", DType.INT64, 1, context());
    }

    /** In a block when its softmax is taken. */
    private List<Copy> softmaxOfForward(boolean graph) {
        var alive = new ArrayList<Copy>();
        if (graph) {
            alive.addAll(keptUpToSoftmax());
            if (narrow()) {
                alive.add(rows("output of ln1", WIDE));
            }
        } else {
            alive.add(rows("input of the block", WIDE));
            alive.add(rows("output of ln1", WIDE));
            alive.add(probabilities());
        }
        alive.addAll(projected());
        alive.add(pairs("scores", autocast));
        if (ofSoftmax() != autocast) {
            alive.add(pairs("scores, cast for the softmax", ofSoftmax()));
        }
        return alive;
    }

    private List<Copy> productWithValues() {
        var alive = new ArrayList<Copy>();
        alive.add(rows("input of the block", WIDE));
        alive.add(rows("output of ln1", WIDE));
        alive.addAll(projected());
        alive.add(probabilities());
        alive.addAll(probabilitiesCast());
        if (batch > 1) {
            alive.add(rows("values, head by head", autocast));
        }
        alive.add(rows("attended", autocast));
        return alive;
    }

    /**
     * Queries, keys and values as the attention module holds them: as projected, and, where positions are rotary,
     * turned.
     */
    private List<Copy> projected() {
        var alive = new ArrayList<Copy>();
        alive.add(new Copy("queries, keys, values, as projected", "N × D", autocast, 3, rows()));
        if (!is2024()) {
            if (narrow()) {
                alive.add(new Copy("queries, keys in fp32, to be turned", "N × D", WIDE, 2, rows()));
            }
            alive.add(new Copy("queries, keys, turned", "N × D", WIDE, 2, rows()));
        }
        return alive;
    }

    /** In a block without a graph, when its last matrix product has been taken. */
    private List<Copy> endOfFeedForward() {
        return joined(
                List.of(
                        rows("input of the block", WIDE),
                        rows("output of ln1", WIDE),
                        rows("output of the attention", autocast),
                        rows("sum of the two", WIDE),
                        rows("output of ln2", WIDE),
                        rows("output of w2", autocast)),
                innerOfFeedForward());
    }

    private List<Copy> logitsWithoutGraph() {
        var alive = new ArrayList<Copy>();
        alive.add(rows("input of ln_final", WIDE));
        alive.add(rows("output of ln_final", WIDE));
        if (narrow()) {
            alive.add(rows("output of ln_final, cast", autocast));
        }
        alive.add(vocabulary("logits", autocast));
        return alive;
    }

    private List<Moment> forwardWithGraph(List<Copy> held) {
        int earlier = config.numLayers() - 1;
        var loss = new ArrayList<>(kept());
        if (narrow()) {
            loss.add(vocabulary("logits in fp32", WIDE));
        }
        return List.of(
                moment(
                        "softmax of the last block",
                        held,
                        embedded(),
                        blocks(earlier),
                        castsInAttention(),
                        softmaxOfForward(true)),
                moment("loss", held, loss));
    }

    // ---- backward ----

    private List<Moment> backward(List<Copy> held) {
        int last = config.numLayers() - 1;
        var start = new ArrayList<>(kept());
        start.add(vocabulary("gradient of log-probabilities", WIDE));
        start.add(vocabulary("gradient of logits", WIDE));
        return List.of(
                moment("start of backward", held, start),
                moment("backward of lm_head", held, backwardOfHead()),
                moment("backward of the last feed-forward layer", held, backwardOfFeedForward(last)),
                moment("backward of the last softmax", held, backwardOfSoftmax(last)),
                moment("backward of the first feed-forward layer", held, backwardOfFeedForward(0)),
                moment("backward of the first softmax", held, backwardOfSoftmax(0)),
                moment("end of backward", held, endOfBackward()));
    }

    /** When the last matrix product has its two gradients. */
    private List<Copy> backwardOfHead() {
        var alive = new ArrayList<Copy>();
        kept().stream().filter(copy -> !copy.name().equals("log-probabilities")).forEach(alive::add);
        alive.add(vocabulary("gradient of logits", autocast));
        alive.add(rows("gradient of lm_head's input", autocast));
        alive.add(new Copy("gradient of lm_head's weight", "V × D", autocast, 1, vocabularyMatrix()));
        return alive;
    }

    /** When the gradient comes out of the product of gate and values (2025), or of GELU (2024), of a block. */
    private List<Copy> backwardOfFeedForward(int block) {
        var alive = new ArrayList<Copy>(blocks(block + 1));
        alive.addAll(weightCasts(block + 1));
        alive.add(vocabulary("logits", autocast));
        long dDf = (long) config.dModel() * config.dFf();
        alive.add(gradients(gradientsAbove(block) + dDf));
        alive.add(rows("gradient of the residual stream", WIDE));
        int inner = is2024() ? 1 : 2; // 2024: gradient of gelu in, out, less the input of w2; 2025: one more of both
        alive.add(new Copy(
                "gradients inside the feed-forward layer, less the input of w2",
                "N × F",
                autocast,
                inner,
                innerNumbers()));
        return alive;
    }

    private List<Copy> backwardOfSoftmax(int block) {
        var alive = new ArrayList<Copy>(blocks(block));
        alive.addAll(keptUpToSoftmax());
        alive.addAll(weightCasts(block + 1));
        alive.add(vocabulary("logits", autocast));
        long d = config.dModel();
        alive.add(gradients(gradientsAbove(block) + matrices() * d * config.dFf() + d + d * d));
        alive.add(rows("gradient of the residual stream", WIDE));
        alive.add(rows("gradient of values", autocast));
        alive.add(pairs("gradient of probabilities", ofSoftmax()));
        alive.add(pairs("gradient of scores", ofSoftmax()));
        if (on == DeviceKind.CUDA) {
            alive.add(pairs("gradient × probabilities", ofSoftmax()));
        }
        return alive;
    }

    private List<Copy> endOfBackward() {
        var alive = new ArrayList<Copy>();
        alive.add(vocabulary("logits", autocast));
        alive.add(gradients(config.parameterCount()));
        if (is2024()) {
            alive.add(new Copy("gradient of the tied table as an embedding", "V × D", WIDE, 1, vocabularyMatrix()));
        }
        if (is2024() && !narrow()) {
            // That of the head is a transposed view, to which the other cannot be added in place.
            alive.add(new Copy("sum of its two gradients", "V × D", WIDE, 1, vocabularyMatrix()));
        } else {
            alive.add(rows("gradient of the residual stream", WIDE));
        }
        return alive;
    }

    /** Numbers of the gradients that exist when the backward pass comes to a block. */
    private long gradientsAbove(int block) {
        long d = config.dModel();
        long perBlock = blockMatrices() + 2 * d;
        return vocabularyMatrix() + d + (config.numLayers() - 1L - block) * perBlock;
    }

    private List<Copy> blocks(int n) {
        return keptByBlock().stream()
                .map(copy -> copy.times(n))
                .filter(copy -> copy.count() > 0)
                .toList();
    }

    // ---- held all the time ----

    /** Parameters, what comes with the model and the batch, and workspaces of libraries. */
    private List<Copy> always(int threadsWithCublas) {
        var held = new ArrayList<Copy>();
        held.add(new Copy("parameters", "P", WIDE, 1, config.parameterCount()));
        held.add(new Copy("token ids and targets", "N", DType.INT64, 2, tokens()));
        if (!is2024()) {
            held.add(new Copy("turns of rotary positions", "T × D/H", WIDE, 1, (long) context() * config.headDim()));
        }
        held.add(new Copy("mask", "T × T", autocast, 1, (long) context() * context()));
        if (on == DeviceKind.CUDA) {
            held.add(new Copy("cuBLAS workspace", "", WIDE, threadsWithCublas, CUBLAS_WORKSPACE / WIDE.bytes()));
        }
        return held;
    }

    private List<Copy> optimizerState() {
        return List.of(new Copy("moments of AdamW", "P", WIDE, 2, config.parameterCount()));
    }

    private static Copy gradients(long numbers) {
        return new Copy("gradients of parameters", "up to P", WIDE, 1, numbers);
    }

    // ---- sizes ----

    private boolean is2024() {
        return config.form() == ModelEdition.SPRING_2024;
    }

    private boolean narrow() {
        return autocast.bytes() < WIDE.bytes();
    }

    private DType ofSoftmax() {
        return on == DeviceKind.CUDA ? WIDE : autocast;
    }

    private int context() {
        return config.contextLength();
    }

    private long tokens() {
        return (long) batch * context();
    }

    private long rows() {
        return tokens() * config.dModel();
    }

    private long innerNumbers() {
        return tokens() * config.dFf();
    }

    private long vocabularyMatrix() {
        return (long) config.vocabSize() * config.dModel();
    }

    private int matrices() {
        return is2024() ? 2 : 3;
    }

    private long blockMatrices() {
        long d = config.dModel();
        return 4 * d * d + matrices() * d * config.dFf();
    }

    private Copy rows(String name, DType dtype) {
        return new Copy(name, "N × D", dtype, 1, rows());
    }

    private Copy inner(String name) {
        return new Copy(name, "N × F", autocast, 1, innerNumbers());
    }

    private Copy pairs(String name, DType dtype) {
        return new Copy(name, "B × H × T × T", dtype, 1, tokens() * context() * config.numHeads());
    }

    private Copy vocabulary(String name, DType dtype) {
        return new Copy(name, "N × V", dtype, 1, tokens() * config.vocabSize());
    }

    private static long sum(List<Copy> copies) {
        return copies.stream().mapToLong(Copy::bytes).sum();
    }

    @SafeVarargs
    private static Moment moment(String name, List<Copy>... copies) {
        return new Moment(name, joined(copies));
    }

    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    private static List<Copy> joined(List<Copy>... lists) {
        return Stream.of(lists).flatMap(List::stream).toList();
    }
}
