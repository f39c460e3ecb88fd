package cs336.scaling;

import static cs336.numbers.CalculatedResults.number;
import static cs336.units.UnitFactors.GB;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.ModelOptions;
import cs336.bench.Pass;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.CheckpointPolicy;
import cs336.numbers.CalculatedResults;
import cs336.numbers.Header;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Flop;
import cs336.units.FlopRate;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;
import tech.tablesaw.api.Row;

/**
 * A measured FSDP step on two GPUs and its prediction from other measurements. The step has bf16 as compute dtype, fp32
 * shards, FlashAttention, fused RMSNorm and compiled elementwise functions.
 *
 * <p><b>Step time.</b> The larger of two times:
 *
 * <ul>
 *   <li>GPU time, from {@link SimulatedStep} with one block gathered ahead. FLOPs outside attention run at the rate of
 *       a compiled step on one GPU with 512 tokens, without its attention and optimizer: that of xl or, for wider
 *       models, of 2.7B. Attention takes the time that FlashAttention alone takes at its head dimension and context,
 *       AdamW runs at the copy bandwidth, and collectives at the bandwidth and launch time fitted to all-reduces of two
 *       and four GPUs. Copies of activations to the host overlap with computation and take no time.
 *   <li>Launch overhead, from a step of the small model on one GPU, whose time hardly depends on the GPU: its time per
 *       block times the number of blocks. The host time of collectives is not included.
 * </ul>
 *
 * <p><b>Bytes sent.</b> Two all-gathers and a reduce-scatter of each unit in bf16, less the second all-gather of the
 * head, which stays gathered, and of the embedding, whose backward pass does not read it.
 *
 * <p><b>Peak memory.</b> The sum of the tensors that {@link ShardedParameterMemory} counts, where it is largest.
 *
 * @param size label of the model
 * @param batch sequences of each GPU
 * @param context tokens of a sequence
 * @param checkpointing policy of activation checkpointing
 * @param limit {@code GPU}, or {@code launches} if launch overhead determines the predicted step
 * @param gpu predicted GPU time in ms
 * @param launches predicted launch overhead in ms
 * @param measuredStep measured step in ms
 * @param exposed predicted exposed communication in ms, if the predicted step is GPU-bound
 * @param measuredExposed communication that does not overlap with computation in a trace, in ms; null without a trace
 * @param sent predicted bytes that a rank sends in a step, in GB
 * @param measuredSent bytes counted at the NVLinks in GB
 * @param peak predicted peak memory in GB
 * @param measuredPeak measured peak memory in GB
 */
public record FsdpPrediction(
        String size,
        @Header("sequences") int batch,
        @Header("tokens") int context,
        String checkpointing,
        @Header("limited by") String limit,
        @Header("GPU time, predicted (ms)") double gpu,
        @Header("launches, predicted (ms)") double launches,
        @Header("step, measured (ms)") double measuredStep,
        @Header("exposed communication, predicted (ms)") double exposed,
        @Header("exposed, measured (ms)") Double measuredExposed,
        @Header("sent, predicted (GB)") double sent,
        @Header("sent, measured (GB)") double measuredSent,
        @Header("peak memory, predicted (GB)") double peak,
        @Header("peak memory, measured (GB)") double measuredPeak) {
    private static final int RANKS = 2;
    private static final int GATHERED_UNITS = 2;
    private static final String IMPLEMENTATION = "rmsnorm-fused+flash+compiled";
    private static final String STEPS = "fsdp_accounting%s[mode=fsdp, dtype=bf16, backend=nccl, nodes=1, processes="
            + RANKS + ", implementation=" + IMPLEMENTATION + ", status=ok";
    private static final int ROUND = 1;

    private static final List<ModelSize> RATE_SIZES = List.of(ModelSize.XL, ModelSize.B2_7);
    private static final int RATE_BATCH = 4;
    private static final int RATE_CONTEXT = 512;
    private static final String RATE_STEP =
            "torch_compile@h200[size=%s, year=2025, batch=" + RATE_BATCH + ", dtype=bf16, context=" + RATE_CONTEXT
                    + ", pass=step, warmup=5, implementation=flash+fused, metric=total].median";
    private static final String LAUNCH_STEP = "torch_compile@h200[size=small, year=2025, batch=4, dtype=bf16,"
            + " context=128, pass=step, implementation=flash, metric=total].median";
    private static final int COPY_ROWS = 50_000;
    private static final int COPY_WIDTH = 8192;
    private static final String COPY = "torch_compile_rmsnorm@h200[rows=" + COPY_ROWS + ", hidden=" + COPY_WIDTH
            + ", dtype=fp32, synchronize=group, implementation=copy, metric=forward].median";
    private static final String NETWORK = "scaling_fit@on-paper[from=all-reduces, metric=%s].median";

    /** Bytes that AdamW reads and writes per parameter: gradient, and twice parameter and both moments, in fp32. */
    private static final int ADAMW_BYTES = 28;

    private static final int FP32 = DType.FLOAT32.bytes();
    private static final int BF16 = DType.BFLOAT16.bytes();

    /** Returns whether launch overhead determines the predicted step. */
    public boolean isLaunchBound() {
        return launches > gpu;
    }

    /** Returns the predicted step in ms. */
    public double step() {
        return Math.max(gpu, launches);
    }

    /**
     * Returns predictions for all measured steps of the first round.
     *
     * @param numbers measurements of a machine with two GPUs; its parent folder must contain {@code h200} and
     *     {@code on-paper}
     * @throws IllegalArgumentException if a required measurement is missing
     */
    public static List<FsdpPrediction> of(MeasurementQuery numbers) {
        var rates = Rates.from(numbers);
        var predictions = new ArrayList<FsdpPrediction>();
        for (Row row : numbers.selectWithNumbers(
                STEPS.formatted("") + ", round=" + ROUND + ", metric=total]", "batch", "context", "loss_rows")) {
            predictions.add(new MeasuredFsdpStep(numbers, rates, row).prediction());
        }
        return predictions;
    }

    /** Stores predictions, measurements and their ratios. */
    public static void store(List<FsdpPrediction> predictions, CalculatedResults results) throws IOException {
        for (FsdpPrediction p : predictions) {
            var values = new ArrayList<Measurement>();
            values.add(number("launch-bound", "", p.isLaunchBound() ? 1 : 0));
            values.add(number("gpu-time", "ms", p.gpu));
            values.add(number("launch-overhead", "ms", p.launches));
            addComparison(values, "step", "ms", p.step(), p.measuredStep);
            if (p.measuredExposed != null && !p.isLaunchBound()) {
                addComparison(values, "exposed", "ms", p.exposed, p.measuredExposed);
            }
            addComparison(values, "sent", "GB", p.sent, p.measuredSent);
            addComparison(values, "peak", "GB", p.peak, p.measuredPeak);
            Case c = Case.measuredHere("simulated")
                    .with("size", p.size)
                    .with("batch", p.batch)
                    .with("context", p.context)
                    .with("checkpointing", p.checkpointing);
            results.put(c, values);
        }
    }

    private static void addComparison(
            List<Measurement> values, String name, String unit, double predicted, double measured) {
        values.add(number(name + "-predicted", unit, predicted));
        values.add(number(name + "-measured", unit, measured));
        values.add(number(name + "-ratio", "", predicted / measured));
    }

    /**
     * The measured rates that predictions use.
     *
     * @param outsideAttention FLOP rate of a step without attention and optimizer, by d_model: wide matrix
     *     multiplications are faster
     * @param attention times of attention
     * @param copy copy bandwidth of a GPU
     * @param launchPerBlock launch overhead of a step per block
     * @param network links between the GPUs
     */
    private record Rates(
            NavigableMap<Integer, FlopRate> outsideAttention,
            AttentionTimes attention,
            Bandwidth copy,
            Seconds launchPerBlock,
            Cluster network) {
        static Rates from(MeasurementQuery numbers) {
            var attention = new AttentionTimes(numbers);
            double copied = 2.0 * COPY_ROWS * COPY_WIDTH * FP32;
            var copy = new Bandwidth(copied / seconds(numbers, COPY));
            var outsideAttention = new TreeMap<Integer, FlopRate>();
            for (ModelSize size : RATE_SIZES) {
                TransformerConfig config = size.config(ModelEdition.SPRING_2025, RATE_CONTEXT);
                double outside = seconds(numbers, RATE_STEP.formatted(size.label()))
                        - attention.forward(config, RATE_BATCH).value()
                        - attention.backward(config, RATE_BATCH).value()
                        - Bytes.of(config.parameterCount(), ADAMW_BYTES)
                                .over(copy)
                                .value();
                Flop passes = shape(config).forwardBackward(Tokens.of(RATE_BATCH, RATE_CONTEXT));
                outsideAttention.put(config.dModel(), new FlopRate(passes.count() / outside));
            }

            int smallBlocks = ModelSize.SMALL.config().numLayers();
            var link =
                    Cluster.H200.within().withBandwidth(Bandwidth.gb(value(numbers, NETWORK.formatted("bandwidth"))));
            return new Rates(
                    outsideAttention,
                    attention,
                    copy,
                    new Seconds(seconds(numbers, LAUNCH_STEP) / smallBlocks),
                    new Cluster(
                            Cluster.H200.perNode(),
                            link,
                            Cluster.H200.between(),
                            Seconds.us(value(numbers, NETWORK.formatted("launch")))));
        }

        /** Returns the rate of the widest measured model that is not wider than this one, or of the narrowest. */
        FlopRate outsideAttention(TransformerConfig config) {
            Map.Entry<Integer, FlopRate> found = outsideAttention.floorEntry(config.dModel());
            return (found == null ? outsideAttention.firstEntry() : found).getValue();
        }
    }

    private static double seconds(MeasurementQuery numbers, String milliseconds) {
        return value(numbers, milliseconds) / 1e3;
    }

    private static double value(MeasurementQuery numbers, String expression) {
        return numbers.quantity(expression).value();
    }

    private static ModelShape shape(TransformerConfig config) {
        return ModelShape.of("model", config, DType.BFLOAT16);
    }

    /**
     * Times of FlashAttention with a causal mask in bf16 on one H200, from measurements of the leaderboard problem and,
     * for the width 80, of {@code cs336 flash}.
     *
     * <p>The time per FLOP depends on the width of the kernel, to which rows of other head dimensions are padded with
     * zeros, and on the context T. A head takes a time in proportion to T² in the kernels' loops, and to T outside
     * them, so the time per FLOP is linear in 1/T. It is interpolated in this way between the measured contexts. Below
     * the shortest context it is that of the shortest, above the longest that of the longest.
     */
    static final class AttentionTimes {
        /** Number of heads that was measured at each context; they occupy all multiprocessors. */
        private static final Map<Integer, Integer> HEADS = Map.of(256, 1024, 1024, 256, 4096, 16, 16_384, 16);

        private static final String TIME = "flash_leaderboard@h200[heads=%d, d=%d, context=%d, implementation=flash,"
                + " warmup=100, rep=200, round=median, metric=%s].median";

        private static final int CONTEXT_OF_80 = 2048;
        private static final int HEADS_OF_80 = 8 * 32;
        private static final String TIME_OF_80 = "flash_benchmarking@h200[batch=8, heads=32, d=80, context="
                + CONTEXT_OF_80 + ", dtype=bf16, causal=true, implementation=flash, metric=%s].median";

        /** Seconds per FLOP of each pass at one context. */
        private record PerFlop(double forward, double backward) {}

        private final NavigableMap<Integer, NavigableMap<Integer, PerFlop>> byWidth = new TreeMap<>();

        /** @throws IllegalArgumentException if a measurement is missing */
        AttentionTimes(MeasurementQuery numbers) {
            for (int width : List.of(64, 128)) {
                var byContext = new TreeMap<Integer, PerFlop>();
                HEADS.forEach((context, heads) -> {
                    double forward = seconds(numbers, TIME.formatted(heads, width, context, "forward"));
                    double both = seconds(numbers, TIME.formatted(heads, width, context, "forward-backward"));
                    byContext.put(context, perFlop(heads, width, context, forward, both - forward));
                });
                byWidth.put(width, byContext);
            }
            double forward = seconds(numbers, TIME_OF_80.formatted("forward"));
            double backward = seconds(numbers, TIME_OF_80.formatted("backward"));
            PerFlop of80 = perFlop(HEADS_OF_80, 80, CONTEXT_OF_80, forward, backward);
            byWidth.put(80, new TreeMap<>(Map.of(CONTEXT_OF_80, of80)));
        }

        private static PerFlop perFlop(int heads, int width, int context, double forward, double backward) {
            double flop = 2.0 * heads * width * context * context;
            return new PerFlop(forward / flop, backward / (2.5 * flop));
        }

        /** Returns the time of the forward pass of attention in all blocks. */
        Seconds forward(TransformerConfig config, int batch) {
            return new Seconds(flop(config, batch) * perFlop(config, PerFlop::forward));
        }

        /** Returns the time of the backward pass of attention in all blocks. */
        Seconds backward(TransformerConfig config, int batch) {
            return new Seconds(2.5 * flop(config, batch) * perFlop(config, PerFlop::backward));
        }

        /** Returns the FLOP of the forward pass with padded rows, counting the causal half. */
        private double flop(TransformerConfig config, int batch) {
            double context = config.contextLength();
            return 2.0 * batch * config.numHeads() * width(config) * context * context * config.numLayers();
        }

        private int width(TransformerConfig config) {
            int d = config.dModel() / config.numHeads();
            Integer width = byWidth.ceilingKey(d);
            if (width == null) {
                throw new IllegalArgumentException("heads must have at most 128 elements, not " + d);
            }
            return width;
        }

        private double perFlop(TransformerConfig config, ToDoubleFunction<PerFlop> pass) {
            NavigableMap<Integer, PerFlop> byContext = byWidth.get(width(config));
            double context = config.contextLength();
            Map.Entry<Integer, PerFlop> shorter = byContext.floorEntry(config.contextLength());
            Map.Entry<Integer, PerFlop> longer = byContext.higherEntry(config.contextLength());
            if (shorter == null || longer == null) {
                return pass.applyAsDouble((shorter == null ? longer : shorter).getValue());
            }
            double atShorter = pass.applyAsDouble(shorter.getValue());
            double atLonger = pass.applyAsDouble(longer.getValue());
            double share = (1 / context - 1.0 / longer.getKey()) / (1.0 / shorter.getKey() - 1.0 / longer.getKey());
            return atLonger + share * (atShorter - atLonger);
        }
    }

    /** A measured step and its prediction. */
    private static final class MeasuredFsdpStep {
        private final MeasurementQuery numbers;
        private final Rates rates;
        private final String size;
        private final int batch;
        private final String checkpointing;
        private final int lossRows;
        private final String filters;
        private final TransformerConfig config;
        private final ModelShape shape;
        private final CheckpointPlan plan;
        private final Tokens tokens;
        private final FlopRate outsideAttention;

        MeasuredFsdpStep(MeasurementQuery numbers, Rates rates, Row row) {
            this.numbers = numbers;
            this.rates = rates;
            size = row.getString("size");
            batch = integer(row, "batch");
            checkpointing = row.getString("checkpointing");
            lossRows = integer(row, "loss_rows");
            int context = integer(row, "context");
            filters = ", size=%s, batch=%d, context=%d, checkpointing=%s, round=%d, metric=%%s]"
                    .formatted(size, batch, context, checkpointing, ROUND);
            config = ModelOptions.configOf(size, ModelEdition.SPRING_2025, context)
                    .withNormalization("rmsnorm-fused")
                    .withAttention("flash")
                    .withFusion("compiled")
                    .withCheckpointing(CheckpointPolicy.parse(checkpointing));
            shape = shape(config);
            plan = config.checkpointing().plan(config.numLayers());
            tokens = Tokens.of(batch, context);
            outsideAttention = rates.outsideAttention(config);
        }

        private static int integer(Row row, String column) {
            return (int) Math.round(Double.parseDouble(String.valueOf(row.getObject(column))));
        }

        private double measured(String metric) {
            return value(numbers, STEPS.formatted("") + filters.formatted(metric) + ".median");
        }

        /**
         * Returns the time of communication without computation, the median of the recorded steps.
         *
         * @return null if no trace of this step was recorded
         */
        private Double measuredExposed() {
            for (Row row : numbers.selectWithNumbers(
                    STEPS.formatted("_overlap") + ", round=" + ROUND + ", metric=exposed]", "batch", "context")) {
                if (row.getString("size").equals(size)
                        && integer(row, "batch") == batch
                        && integer(row, "context") == config.contextLength()
                        && row.getString("checkpointing").equals(checkpointing)) {
                    return row.getDouble("median");
                }
            }
            return null;
        }

        FsdpPrediction prediction() {
            Seconds optimizer = Bytes.of(config.parameterCount(), ADAMW_BYTES).over(rates.copy);
            var model = StepModel.of(config, forward(), backward(), optimizer);
            var simulated = new SimulatedStep(
                    model,
                    rates.network,
                    Mesh.single().withShards(RANKS, ZeroStage.PARAMETERS),
                    DType.BFLOAT16,
                    tokens,
                    Synchronization.overlapped(),
                    1,
                    Overheads.NONE);
            double gpu = simulated.time().ms();
            double launches = rates.launchPerBlock.times(config.numLayers()).ms();
            return new FsdpPrediction(
                    size,
                    batch,
                    config.contextLength(),
                    checkpointing,
                    launches > gpu ? "launches" : "GPU",
                    gpu,
                    launches,
                    measured("total"),
                    simulated.exposed().ms(),
                    measuredExposed(),
                    sent() / GB,
                    measured("sent") / GB,
                    peak() / GB,
                    measured("peak") / GB);
        }

        private Seconds forward() {
            return shape.forward(tokens).at(outsideAttention).plus(rates.attention.forward(config, batch));
        }

        /** Returns the time of the backward pass with its recomputation. */
        private Seconds backward() {
            Seconds block = new Flop(2.0 * tokens.count() * shape.blockMatrices())
                    .at(outsideAttention)
                    .plus(rates.attention.forward(config, batch).times(1.0 / shape.blocks()));
            double gateAndUp = 2 * 2.0 * tokens.count() * config.dModel() * config.dFf(); // w2 is not recomputed
            return shape.forward(tokens)
                    .times(2)
                    .at(outsideAttention)
                    .plus(rates.attention.backward(config, batch))
                    .plus(block.times(plan.recomputedBlocks()))
                    .plus(new Flop(plan.recomputedFeedForwards() * gateAndUp).at(outsideAttention))
                    .plus(elementwise().times(plan.recomputedElementwise()));
        }

        /** Returns the time to compute the normalizations and SwiGLU's activation function of a block, in bf16. */
        private Seconds elementwise() {
            long norms = 2L * 2 * config.dModel(); // each reads one tensor and writes one
            long activation = 3L * config.dFf(); // reads two and writes one
            return Bytes.of(tokens.count() * (norms + activation), BF16).over(rates.copy);
        }

        private double sent() {
            double blocks = 3.0 * shape.blocks() * shape.blockMatrices();
            double embeddingAndHead = 2.0 * 2 * shape.headMatrix();
            return BF16 * (blocks + embeddingAndHead) * (RANKS - 1) / RANKS;
        }

        /** Returns the bytes of all tensors at the peak, without the rounding of an allocator. */
        private double peak() {
            var model = new ModelMemory(config, batch, DType.BFLOAT16, DeviceKind.CUDA, DType.BFLOAT16, lossRows);
            return new ShardedParameterMemory(model, RANKS, GATHERED_UNITS)
                    .candidates(Pass.STEP).stream()
                            .mapToLong(MemoryInventory::bytes)
                            .max()
                            .orElseThrow();
        }
    }
}
