package cs336.scaling;

import cs336.units.Bytes;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * What one device of a mesh holds in a training step, copy by copy: the device with the largest share. Nothing is
 * recomputed; the activations of tensor parallelism are split in every layer (sequence parallelism); the first stage of
 * a pipeline keeps as many micro-batches as there are stages (one forward, one backward). The allocator's losses,
 * workspaces and what the last layers keep are not in it.
 *
 * @param model the model
 * @param state the copies of its parameters
 * @param mesh how all of it is split
 * @param tokens of one micro-batch, of each of the mesh's groups that take sequences of their own
 */
public record DeviceMemory(ModelShape model, TrainingState state, Mesh mesh, Tokens tokens) {
    /** @throws IllegalArgumentException if the mesh has more stages than the model has blocks */
    public DeviceMemory {
        requireBlocks(model, mesh);
    }

    /**
     * One kind of memory.
     *
     * @param name what it is
     * @param dtype of its numbers
     * @param share into how many parts the whole is split
     * @param bytes the largest part
     */
    public record DeviceTensor(String name, String dtype, long share, Bytes bytes) {}

    /** All of them, the state first. */
    public List<DeviceTensor> tensors() {
        var held = new ArrayList<DeviceTensor>();
        long stage = parametersOfStage(model, mesh);
        for (TensorMemory copy : state.tensors(stage)) {
            long share = mesh.tensor() * (splits(copy) ? mesh.shards() : 1L);
            held.add(held(copy.name(), copy.dtype().toString(), share, new Bytes(copy.bytes())));
        }
        boolean gathers = mesh.shards() > 1 && mesh.stage().splitsWeights();
        if (gathers || state.sent() != state.weights()) {
            Bytes block = Bytes.of(model.blockMatrices(), state.sent().bytes());
            String name = gathers ? "weights of two blocks, gathered" : "weights of a block, cast";
            held.add(held(name, state.sent().toString(), mesh.tensor(), block.times(gathers ? 2 : 1)));
        }
        Bytes kept = model.keptPerToken()
                .times(blocksOfStage(model, mesh))
                .times(tokens.count())
                .times(mesh.pipeline());
        held.add(held("kept for the backward pass", "as computed", mesh.tensor(), kept));
        return held;
    }

    /** All together. */
    public Bytes total() {
        return tensors().stream().map(DeviceTensor::bytes).reduce(Bytes.NONE, Bytes::plus);
    }

    /**
     * A row for each: {@code copy}, {@code dtype}, {@code split by}, {@code GB}, {@code GiB}; a last row with the sum.
     */
    public Table table() {
        Table table = Table.create(
                model.name() + " on " + mesh + ", a device",
                StringColumn.create("copy"),
                StringColumn.create("dtype"),
                StringColumn.create("split by"),
                DoubleColumn.create("GB"),
                DoubleColumn.create("GiB"));
        tensors().forEach(h -> append(table, h.name, h.dtype, String.valueOf(h.share), h.bytes));
        append(table, "sum", "", "", total());
        return table;
    }

    private static void append(Table table, String name, String dtype, String share, Bytes bytes) {
        Row row = table.appendRow();
        row.setString("copy", name);
        row.setString("dtype", dtype);
        row.setString("split by", share);
        row.setDouble("GB", bytes.gb());
        row.setDouble("GiB", bytes.gib());
    }

    private static DeviceTensor held(String name, String dtype, long share, Bytes whole) {
        return new DeviceTensor(name, dtype, share, whole.sharedBy(share));
    }

    private boolean splits(TensorMemory copy) {
        return switch (copy.name()) {
            case "master weights" -> mesh.stage().splitsWeights();
            case "accumulated gradients" -> mesh.stage().splitsGradients();
            default -> true;
        };
    }

    static void requireBlocks(ModelShape model, Mesh mesh) {
        if (mesh.pipeline() > model.blocks()) {
            throw new IllegalArgumentException("pipeline must be at most " + model.blocks() + ", the blocks of "
                    + model.name() + ", not " + mesh.pipeline());
        }
    }

    static long blocksOfStage(ModelShape model, Mesh mesh) {
        return -Math.floorDiv(-(long) model.blocks(), mesh.pipeline());
    }

    /** Of the stage with most: with several, one has the tables and another one the head. */
    static long parametersOfStage(ModelShape model, Mesh mesh) {
        if (mesh.pipeline() == 1) return model.parameters();
        return blocksOfStage(model, mesh) * model.blockMatrices()
                + Math.max(model.headMatrix(), model.otherParameters());
    }
}
