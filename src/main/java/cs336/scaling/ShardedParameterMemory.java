package cs336.scaling;

import cs336.bench.Pass;
import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.ModelMemory;
import cs336.scaling.memory.TensorMemory;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.List;

/**
 * The predicted memory of a rank of {@code FullyShardedDataParallel}, at the points in the step where memory may peak.
 * Each rank holds 1/n of parameters, gradients and optimizer state in fp32. In addition it holds, in the type of the
 * computation,
 *
 * <ul>
 *   <li>the gathered parameters of the unit that computes and of the next one;
 *   <li>the gradients of the unit that computes, and those of the last complete unit, which are being reduced.
 * </ul>
 *
 * The units are the token embeddings, each block, and the head.
 *
 * @param model memory of the activations, with parameters of the type of the computation
 * @param ranks number of ranks n
 * @param gatheredUnits number of units whose gathered parameters may be in memory at once: 2 with prefetch, 1 without
 */
public record ShardedParameterMemory(ModelMemory model, int ranks, int gatheredUnits) {
    /** Returns the tensors at each point of a pass at which memory may peak. */
    public List<MemoryInventory> candidates(Pass pass) {
        return model.candidates(pass).stream().map(this::sharded).toList();
    }

    private MemoryInventory sharded(MemoryInventory point) {
        var tensors = new ArrayList<TensorMemory>();
        long gradients = 0;
        for (TensorMemory tensor : point.tensors()) {
            switch (tensor.purpose()) {
                case PARAMETERS, OPTIMIZER_STATE -> tensors.add(shard(tensor));
                case GRADIENTS -> gradients += tensor.count() * tensor.elements();
                default -> tensors.add(tensor);
            }
        }
        ModelShape shape = shape();
        long unit = ModelMemory.usesHead(point) ? shape.headMatrix() : shape.blockMatrices();
        tensors.add(buffer("parameters of the unit that computes, gathered", 1, unit));
        if (gatheredUnits > 1) {
            tensors.add(buffer("parameters of the next unit, gathered", gatheredUnits - 1L, shape.blockMatrices()));
        }
        addGradients(tensors, gradients, point.name().equals("optimizer"));
        return new MemoryInventory(point.name(), tensors);
    }

    /** Adds the shards of the gradients that are reduced, and the whole gradients of up to two units. */
    private void addGradients(List<TensorMemory> tensors, long computed, boolean complete) {
        if (computed == 0) {
            return;
        }
        if (complete) {
            tensors.add(shardOfGradients(computed));
            return;
        }
        ModelShape shape = shape();
        long ofHead = Math.min(computed, shape.headMatrix());
        long ofBlocks = computed - ofHead;
        long wholeBlocks = Math.min(shape.blocks(), ofBlocks / shape.blockMatrices());
        long current = ofBlocks - wholeBlocks * shape.blockMatrices(); // after all blocks, of the embedding
        if (ofBlocks >= shape.blockMatrices()) {
            long last = shape.blockMatrices();
            tensors.add(shardOfGradients(computed - current - last));
            tensors.add(wholeGradients(last + current));
        } else {
            tensors.add(shardOfGradients(ofHead));
            tensors.add(wholeGradients(ofHead + current));
        }
    }

    private TensorMemory shardOfGradients(long elements) {
        return new TensorMemory(
                "gradients, this rank's shard", "P / n", DType.FLOAT32, 1, ceilDiv(elements), TensorPurpose.GRADIENTS);
    }

    private TensorMemory wholeGradients(long elements) {
        return buffer("gradients of two units, whole", 1, elements);
    }

    private TensorMemory shard(TensorMemory whole) {
        return new TensorMemory(
                whole.name() + ", this rank's shard",
                whole.shape() + " / n",
                whole.dtype(),
                whole.count(),
                ceilDiv(whole.elements()),
                whole.purpose());
    }

    private TensorMemory buffer(String name, long count, long elements) {
        return new TensorMemory(name, "unit", model.autocast(), count, elements, TensorPurpose.COMMUNICATION_BUFFERS);
    }

    private long ceilDiv(long elements) {
        return IntegerMath.ceilDiv(elements, ranks);
    }

    private ModelShape shape() {
        return ModelShape.of("model", model.config(), model.autocast());
    }
}
