package cs336.scaling;

/** The numbers in the answers of {@link CommunicationAccounting}, with their names in measurements and their units. */
public enum AccountingQuantity {
    /** (a) Parameters of the model. */
    PARAMETERS("parameters", ""),
    /** (a) fp32 weights that the optimizer updates. */
    MASTER_WEIGHTS("master-weights", "bytes"),
    /** (a) Accumulated gradients. */
    ACCUMULATED_GRADIENTS("accumulated-gradients", "bytes"),
    /** (a) AdamW's running mean of gradients. */
    FIRST_MOMENT("AdamW-first-moment", "bytes"),
    /** (a) AdamW's running mean of squared gradients. */
    SECOND_MOMENT("AdamW-second-moment", "bytes"),
    /** (a) Weights, gradients and moments together. */
    STATE("state", "bytes"),
    /** (a) Number of H100 GPUs whose memory holds the state and, for a batch, also its {@link #KEPT_FOR_BACKWARD}. */
    GPUS("gpus", ""),
    /** (a) Weights cast to bf16. */
    BF16_WEIGHTS("bf16-weights", "bytes"),
    /** (a) Activations of a batch that are kept for the backward pass. */
    KEPT_FOR_BACKWARD("kept-for-backward", "bytes"),
    /** (b) Largest batch whose unsharded activations fit into one device. */
    LARGEST_BATCH("largest-batch", "tokens"),
    /** (b) Smallest number of devices whose memory suffices for a batch. */
    DEVICES("devices", ""),
    /** (b) Memory of one of these devices. */
    MEMORY("memory", "bytes"),
    /** (b) Bytes of that memory that do not depend on the number of devices. */
    WHOLE_ON_EACH("whole-on-each", "bytes"),
    /** (b) {@link #DEVICES} if all activations are sharded. */
    DEVICES_ALL_SPLIT("devices-all-split", ""),
    /** (c) Arithmetic intensity from which a chip is compute-bound, in FLOP per byte sent. */
    INTENSITY("intensity", ""),
    /** (c) Largest tensor parallelism with which a batch can be compute-bound. */
    WIDEST_TENSOR("widest-tensor", ""),
    /** (c, d) Smallest compute-bound batch if both communications overlap. */
    BATCH_CONCURRENT("batch-concurrent", "tokens"),
    /** (c, d) {@link #BATCH_CONCURRENT} per chip. */
    BATCH_PER_CHIP_CONCURRENT("batch-per-chip-concurrent", "tokens"),
    /** (c, d) {@link #BATCH_CONCURRENT} per FSDP shard. */
    BATCH_PER_SHARD_CONCURRENT("batch-per-shard-concurrent", "tokens"),
    /** (c, d) Smallest compute-bound batch if one communication follows the other. */
    BATCH_SEQUENTIAL("batch-sequential", "tokens"),
    /** (c, d) {@link #BATCH_SEQUENTIAL} per chip. */
    BATCH_PER_CHIP_SEQUENTIAL("batch-per-chip-sequential", "tokens"),
    /** (c, d) {@link #BATCH_SEQUENTIAL} per FSDP shard. */
    BATCH_PER_SHARD_SEQUENTIAL("batch-per-shard-sequential", "tokens"),
    /** (c) {@link #BATCH_CONCURRENT} of the best mesh of the same number of chips. */
    BEST_MESH_BATCH_CONCURRENT("batch-best-mesh-concurrent", "tokens"),
    /** (c) {@link #BEST_MESH_BATCH_CONCURRENT} per chip. */
    BEST_MESH_BATCH_PER_CHIP_CONCURRENT("batch-per-chip-best-mesh-concurrent", "tokens"),
    /** (c) {@link #BEST_MESH_BATCH_CONCURRENT} per FSDP shard of the given mesh. */
    BEST_MESH_BATCH_PER_SHARD_CONCURRENT("batch-per-shard-best-mesh-concurrent", "tokens"),
    /** (c) {@link #BATCH_SEQUENTIAL} of the best mesh of the same number of chips. */
    BEST_MESH_BATCH_SEQUENTIAL("batch-best-mesh-sequential", "tokens"),
    /** (c) {@link #BEST_MESH_BATCH_SEQUENTIAL} per chip. */
    BEST_MESH_BATCH_PER_CHIP_SEQUENTIAL("batch-per-chip-best-mesh-sequential", "tokens"),
    /** (c) {@link #BEST_MESH_BATCH_SEQUENTIAL} per FSDP shard of the given mesh. */
    BEST_MESH_BATCH_PER_SHARD_SEQUENTIAL("batch-per-shard-best-mesh-sequential", "tokens"),
    /** (c) FSDP devices of the best mesh for {@link #BEST_MESH_BATCH_CONCURRENT}. */
    BEST_FSDP("best-x", ""),
    /** (c) Time to compute a block of {@link #BATCH_CONCURRENT}. */
    COMPUTING("computing", "ms"),
    /** (c) Time to all-gather the weights of a block. */
    GATHERING_WEIGHTS("gathering-weights", "ms"),
    /** (c) Time to all-gather and reduce-scatter the activations of a block of {@link #BATCH_CONCURRENT}. */
    MOVING_ACTIVATIONS("moving-activations", "ms");

    private final String metric;
    private final String unit;

    AccountingQuantity(String metric, String unit) {
        this.metric = metric;
        this.unit = unit;
    }

    /** Returns the name in measurements. */
    public String metric() {
        return metric;
    }

    /** Returns the unit: {@code bytes}, {@code tokens} or {@code ms}; empty for a pure number. */
    public String unit() {
        return unit;
    }
}
