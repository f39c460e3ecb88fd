package cs336.distributed.training;

import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A parameter of a module under {@link FullyShardedDataParallel}: this rank's shard in the master dtype, and the
 * module's own tensor. While its unit is in use, that tensor refers to the gathered parameter in the compute dtype;
 * otherwise it has no rows.
 *
 * <p>Rank r has the rows from r·n to (r + 1)·n, with n = ⌈rows ÷ ranks⌉; the last ranks may have fewer, or none. In
 * collectives each shard is padded to n rows, so that the shards of all ranks concatenate to the parameter. A parameter
 * that is not sharded is replicated: its shard consists of all rows.
 */
final class FsdpParameter implements AutoCloseable {
    private final Tensor weight; // of the module, which closes it
    private final boolean sharded;
    private final Device device;
    private final int ranks;
    private final long[] shape;
    private final long shardRows; // n
    private final long firstRow;
    private final long localRows;
    private final Tensor master; // [localRows, …], the leaf that the optimizer updates
    private final Tensor masterValues; // the same without requires_grad
    private String name;
    private Tensor gathered; // [ranks · n, …] in the compute dtype, without memory unless in use; null if not needed
    private Tensor gatheredRows; // its rows without padding
    private Tensor empty; // without rows, in the compute dtype: another dtype would replace autograd's leaf node
    private DType reduceDtype;
    private Tensor gradient; // of the whole parameter, not yet reduced; null if there is none
    private boolean trainable; // during construction
    private boolean created; // whether this step has created the gradient of the master
    private boolean present; // whether a gradient has arrived since clearPresent()
    private long gatheredVersion; // of the master when it was gathered
    private long usedVersion; // of the master that the module last computed with

    /**
     * Keeps this rank's shard of a parameter, and frees the rest.
     *
     * @param weight the module's tensor, with the same values on all ranks
     * @param group the ranks that divide it
     */
    FsdpParameter(Tensor weight, boolean sharded, ProcessGroup group) {
        this.weight = weight;
        this.sharded = sharded;
        device = group.device();
        ranks = sharded ? group.size() : 1;
        shape = Tensors.shape(weight);
        long rows = sharded ? shape[0] : 1;
        shardRows = IntegerMath.ceilDiv(rows, ranks);
        firstRow = sharded ? Math.min(rows, group.rank() * shardRows) : 0;
        localRows = Math.min(rows, firstRow + shardRows) - firstRow;
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor values = weight.detach();
            master = MemoryScope.keep(
                    sharded ? values.narrow(0, firstRow, localRows).clone() : values);
            masterValues = MemoryScope.keep(master.detach());
            weight.set_data(masterValues);
        }
    }

    /** Prepares the parameter for training, once {@code requires_grad} of the module's tensor is final. */
    void prepare(String newName, DType computeDtype, DType newReduceDtype) {
        name = newName;
        ShardedParameters.declare(weight);
        DType own = DType.of(master);
        DType compute = computeDtype == null ? own : computeDtype;
        DType reduce = newReduceDtype == null ? compute : newReduceDtype;
        reduceDtype = sharded ? reduce : own;
        trainable = weight.requires_grad();
        master.set_requires_grad(trainable);
        if (!sharded && compute == own) {
            return; // the module computes with the master itself
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            gathered = MemoryScope.keep(torch.empty(paddedShape(ranks), device.options(compute), null));
            gatheredRows = MemoryScope.keep((sharded ? gathered.narrow(0, 0, shape[0]) : gathered).detach());
            TensorStorage.free(gathered);
            empty = MemoryScope.keep((shape.length == 0 ? gathered.reshape(1) : gathered)
                    .narrow(0, 0, 0)
                    .clone());
            weight.set_data(empty);
        }
    }

    /** Returns the shape of this many concatenated, padded shards. */
    private long[] paddedShape(int shards) {
        long[] padded = shape.clone();
        if (sharded) {
            padded[0] = shards * shardRows;
        }
        return padded;
    }

    String name() {
        return name;
    }

    /** Returns whether the module's tensor is one of these objects. */
    boolean isOneOf(List<Tensor> weights) {
        return weights.stream().anyMatch(other -> other == weight);
    }

    boolean isSharded() {
        return sharded;
    }

    boolean isTrainable() {
        return trainable;
    }

    /** Checks that neither tensor requires a gradient if the parameter was frozen during construction. */
    void requireStillFrozen() {
        if (!trainable) {
            SameParameters.requireFrozen(name, master);
            if (!weight.isNull()) {
                SameParameters.requireFrozen(name, weight);
            }
        }
    }

    /** Returns the tensor that the optimizer updates: this rank's rows, or the whole parameter if it is replicated. */
    Tensor master() {
        return master;
    }

    /** Returns the shape of the whole parameter. */
    long[] shape() {
        return shape.clone();
    }

    /** Returns the bytes of the gathered parameter. */
    long gatheredBytes() {
        return gathered == null ? 0 : gathered.numel() * gathered.element_size();
    }

    /** Returns the tensor of the gathered parameter, with padding. */
    Tensor gathered() {
        return gathered;
    }

    /** Allocates the gathered parameter. A replicated one also gets its values. */
    void allocate() {
        if (gathered != null) {
            gatheredVersion = masterValues._version();
            TensorStorage.allocate(gathered);
            if (!sharded) {
                gathered.copy_(masterValues);
            }
        }
    }

    /** Returns this rank's input of an all-gather: its padded shard, in the compute dtype. */
    Tensor shardToGather() {
        return padded(masterValues, 1, DType.of(gathered));
    }

    /** Pads rows with zeros to this number of shards, and casts them. */
    private Tensor padded(Tensor rows, int shards, DType dtype) {
        if (rows.size(0) == shards * shardRows) {
            return rows.to(dtype.scalarType()).contiguous();
        }
        Tensor padded = torch.zeros(paddedShape(shards), device.options(dtype));
        padded.narrow(0, 0, rows.size(0)).copy_(rows);
        return padded;
    }

    /** Returns whether the values that were gathered have been changed in place since. */
    boolean hasChanged() {
        return gathered != null && gatheredVersion != masterValues._version();
    }

    /**
     * Lets the module compute with the gathered parameter. If its values have changed since the last use, autograd
     * rejects the backward passes of earlier forward passes, as in a single process.
     */
    void useGathered() {
        if (gathered != null) {
            weight.set_data(gatheredRows);
            if (sharded && usedVersion != gatheredVersion) { // a replicated master shares its version with the weight
                usedVersion = gatheredVersion;
                weight.unsafeGetTensorImpl().bump_version();
            }
        }
    }

    /** Frees the gathered parameter. */
    void free() {
        if (gathered != null) {
            if (!weight.isNull()) { // closed with its module
                weight.set_data(empty);
            }
            TensorStorage.free(gathered);
        }
    }

    /**
     * Adds the gradient of the module's tensor to the gradient that is to be reduced, and clears it. Discards it if the
     * tensor that the optimizer updates has been frozen.
     *
     * @return whether there was one
     */
    boolean takeGradient() {
        Tensor found = weight.grad();
        if (!found.defined()) {
            return false;
        }
        GradientCollective.requireDense(name, found);
        if (!Arrays.equals(Tensors.shape(found), shape)) {
            throw new IllegalStateException("the gradient of parameter " + name + " has shape "
                    + Arrays.toString(Tensors.shape(found)) + ", not " + Arrays.toString(shape)
                    + "; it was used outside of the forward pass of its unit");
        }
        if (!master.requires_grad()) {
            weight.mutable_grad().reset();
            return true;
        }
        present = true;
        Tensor cast = found.to(reduceDtype.scalarType());
        weight.mutable_grad().reset(); // found refers to it
        if (gradient == null) {
            gradient = MemoryScope.keep(cast);
        } else {
            gradient.add_(cast);
        }
        return true;
    }

    /** Returns whether a backward pass has left a gradient that the gradient of the master does not include yet. */
    boolean hasPendingGradient() {
        return gradient != null
                || gathered != null && !weight.isNull() && weight.grad().defined();
    }

    /** Returns whether a gradient has arrived since this was last called. */
    boolean testAndClearPresent() {
        boolean was = present;
        present = false;
        return was;
    }

    /** Returns whether there is a gradient to reduce. */
    boolean hasGradient() {
        return gradient != null;
    }

    /** Removes and returns the gradient as the input of a reduce-scatter: all padded shards; zeros if there is none. */
    Tensor gradientToReduce() {
        if (gradient == null) {
            return torch.zeros(paddedShape(ranks), device.options(reduceDtype));
        }
        Tensor whole = padded(gradient, ranks, reduceDtype);
        gradient.close();
        gradient = null;
        return whole;
    }

    /** Returns the elements of a padded shard, the output of a reduce-scatter. */
    long shardElements() {
        return Arrays.stream(paddedShape(1)).reduce(1, (a, b) -> a * b);
    }

    /** Returns the dtype in which gradients are reduced. */
    DType reduceDtype() {
        return reduceDtype;
    }

    /** Returns the dtype of the shard that the optimizer updates. */
    DType masterDtype() {
        return DType.of(master);
    }

    /** Adds a reduced gradient, of {@link #shardElements} elements, to that of the master. */
    void addReduced(Tensor reduced) {
        Tensor rows = reduced.view(paddedShape(1)).narrow(0, 0, localRows);
        addToMaster(rows.to(DType.of(master).scalarType()));
    }

    /** Adds the gradient of a replicated parameter to that of the master, without communication. */
    void addReplicated() {
        takeGradient();
        if (gradient != null) {
            addToMaster(gradient);
            gradient.close();
            gradient = null;
        }
    }

    private void addToMaster(Tensor more) {
        Tensor existing = master.grad();
        if (existing.defined()) {
            existing.add_(more);
        } else {
            master.mutable_grad().put(more);
            created = true;
        }
    }

    /** Notes that the reduction creates the gradient of a replicated parameter if no rank has one. */
    void expectGradient() {
        created = true;
    }

    /** Removes the gradient of a parameter that no rank has used, unless it is older than this step. */
    void resetCreatedGradient() {
        if (created) {
            master.mutable_grad().reset();
        }
    }

    /** Ends a step. */
    void endStep() {
        created = false;
    }

    /** Discards all gradients. */
    void zeroGrad() {
        weight.mutable_grad().reset();
        master.mutable_grad().reset();
        if (gradient != null) {
            gradient.close();
            gradient = null;
        }
        present = false;
    }

    /**
     * Gathers the rows of all ranks; all ranks call it.
     *
     * @param local a tensor of the shape of this rank's shard, such as the shard itself or an optimizer's moment
     * @return the whole tensor
     */
    Tensor gather(ProcessGroup group, Tensor local) {
        if (!sharded) {
            return local.clone();
        }
        DType dtype = DType.of(local);
        Tensor all = torch.empty(paddedShape(ranks), device.options(dtype), null);
        group.allGather(all, padded(local, 1, dtype));
        return all.narrow(0, 0, shape[0]);
    }

    /** Returns the row of the parameter at which this rank's shard begins. */
    long firstRow() {
        return firstRow;
    }

    /** Copies this rank's rows of a whole parameter into the shard. */
    void load(Tensor whole) {
        loadShard(sharded ? whole.narrow(0, firstRow, localRows) : whole);
    }

    /** Copies values into this rank's shard. */
    void loadShard(Tensor rows) {
        masterValues.copy_(rows);
    }

    /** Frees this object's tensors. */
    @Override
    public void close() {
        if (gradient != null) {
            gradient.close();
        }
        if (gathered != null) {
            empty.close();
            gatheredRows.close();
            gathered.close();
        }
        masterValues.close();
        master.close();
    }
}
