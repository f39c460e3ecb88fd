package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.scaling.memory.TensorMemory;
import cs336.units.Bytes;
import cs336.units.IntegerMath;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.Table;

/**
 * The predicted memory of one device of a mesh in a training step: the device with the largest shard. There is no
 * recomputation. Tensor parallelism splits the activations of every layer (sequence parallelism). The first pipeline
 * stage keeps the activations of as many micro-batches as there are stages, or of all if there are fewer (the 1F1B
 * schedule). The prediction omits fragmentation, workspaces, and the activations of the last layers.
 *
 * @param model the model
 * @param state types of the training state
 * @param mesh axes of parallelism
 * @param tokens tokens of a micro-batch on each data-parallel rank, see {@link Mesh#batchShards}
 * @param microBatches number of micro-batches in a step
 */
public record DeviceMemory(ModelShape model, TrainingState state, Mesh mesh, Tokens tokens, int microBatches) {
    /**
     * @throws IllegalArgumentException if there is no micro-batch, or the mesh has more pipeline stages than the model
     *     has blocks
     */
    public DeviceMemory {
        requireBlocks(model, mesh);
        ArgumentCheck.atLeast("microBatches", 1, microBatches);
    }

    /**
     * A device's shard of one kind of tensor.
     *
     * @param name content of the tensor
     * @param dtype type of its elements
     * @param shards number of shards of the whole tensor
     * @param bytes size of the largest shard
     */
    public record DeviceTensor(String name, String dtype, long shards, Bytes bytes) {}

    /** Returns all tensors of the device, the training state first. */
    public List<DeviceTensor> tensors() {
        var tensors = new ArrayList<DeviceTensor>();
        for (TensorMemory tensor : state.tensors(parametersOfStage(model, mesh))) {
            long shards = mesh.tensor() * (isSharded(tensor) ? mesh.shards() : 1L);
            tensors.add(shard(tensor.name(), tensor.dtype().toString(), shards, new Bytes(tensor.bytes())));
        }
        boolean gathers = mesh.shards() > 1 && mesh.stage().splitsWeights();
        if (gathers || state.sent() != state.weights()) {
            Bytes block = Bytes.of(model.blockMatrices(), state.sent().bytes());
            String name = gathers ? "weights of two blocks, gathered" : "weights of a block, cast";
            tensors.add(shard(name, state.sent().toString(), mesh.tensor(), block.times(gathers ? 2 : 1)));
        }
        Bytes kept = model.keptPerToken()
                .times(blocksOfStage(model, mesh))
                .times(tokens.count())
                .times((long) Math.min(mesh.pipeline(), microBatches));
        tensors.add(shard("kept for the backward pass", "as computed", mesh.tensor(), kept));
        return tensors;
    }

    /** Returns the size of all tensors. */
    public Bytes total() {
        return tensors().stream().map(DeviceTensor::bytes).reduce(Bytes.NONE, Bytes::plus);
    }

    private record DeviceTensorRow(
            String tensor,
            String dtype,
            @Header("shards") String shards,
            @Header("memory (GB)") double gb,
            @Header("memory (GiB)") double gib) {}

    /** Returns a table with a row for each tensor and a last row with the sum. */
    public Table table() {
        List<DeviceTensorRow> rows = new ArrayList<>();
        for (DeviceTensor t : tensors()) {
            rows.add(row(t.name, t.dtype, String.valueOf(t.shards), t.bytes));
        }
        rows.add(row("sum", "", "", total()));
        return Tables.of(DeviceTensorRow.class, rows).setName(model.name() + " on " + mesh + ", one device");
    }

    private static DeviceTensorRow row(String name, String dtype, String shards, Bytes bytes) {
        return new DeviceTensorRow(name, dtype, shards, bytes.gb(), bytes.gib());
    }

    private static DeviceTensor shard(String name, String dtype, long shards, Bytes whole) {
        return new DeviceTensor(name, dtype, shards, whole.sharedBy(shards));
    }

    private boolean isSharded(TensorMemory tensor) {
        return switch (tensor.name()) {
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

    /** Returns the number of blocks in the largest pipeline stage. */
    static long blocksOfStage(ModelShape model, Mesh mesh) {
        return IntegerMath.ceilDiv((long) model.blocks(), mesh.pipeline());
    }

    /** Returns the parameters of the largest pipeline stage; the embeddings and the head are in different stages. */
    static long parametersOfStage(ModelShape model, Mesh mesh) {
        if (mesh.pipeline() == 1) {
            return model.parameters();
        }
        return blocksOfStage(model, mesh) * model.blockMatrices()
                + Math.max(model.headMatrix(), model.otherParameters());
    }
}
