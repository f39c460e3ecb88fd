package cs336.planner;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.Pass;
import cs336.scaling.MemoryInventory;
import cs336.scaling.ModelMemory;
import cs336.scaling.TensorMemory;
import cs336.scaling.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.List;

/**
 * The predicted memory of a rank of {@link cs336.distributed.training.FullyShardedDataParallel}, at the points in the
 * step where memory may peak. Each rank holds 1/n of parameters, gradients and optimizer state in fp32. In addition it
 * holds, in the type of the computation,
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
record ShardedParameterMemory(ModelMemory model, int ranks, int gatheredUnits) {
    /** Returns the tensors at each point of a pass at which memory may peak. */
    List<MemoryInventory> candidates(Pass pass) {
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
        boolean head = ModelMemory.usesHead(point);
        long unit = head ? headElements() : blockElements();
        tensors.add(buffer("parameters of the unit that computes, gathered", 1, unit));
        if (gatheredUnits > 1) {
            tensors.add(buffer("parameters of the next unit, gathered", gatheredUnits - 1L, blockElements()));
        }
        addGradients(tensors, gradients, point.name().equals("optimizer"));
        return new MemoryInventory(point.name(), tensors);
    }

    /** Adds the shards of the gradients that are reduced, and the whole gradients of up to two units. */
    private void addGradients(List<TensorMemory> tensors, long computed, boolean complete) {
        if (computed == 0) {
            return;
        }
        long whole = Math.min(computed, headElements());
        long last = whole == headElements() ? whole : 0; // of the last complete unit
        long current = computed - whole;
        while (!complete && current >= blockElements()) {
            current -= blockElements();
            last = blockElements();
        }
        long reduced = complete ? computed : computed - current - (last == whole ? 0 : last);
        if (complete) {
            last = 0;
            current = 0;
        }
        tensors.add(new TensorMemory(
                "gradients, this rank's shard", "P / n", DType.FLOAT32, 1, ceilDiv(reduced), TensorPurpose.GRADIENTS));
        tensors.add(buffer("gradients of two units, whole", 1, last + current));
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
        return (elements + ranks - 1) / ranks;
    }

    private long headElements() {
        return (long) config().vocabSize() * config().dModel();
    }

    private long blockElements() {
        long d = config().dModel();
        int matrices = config().edition() == ModelEdition.SPRING_2024 ? 2 : 3;
        return 4 * d * d + matrices * d * config().dFf();
    }

    private TransformerConfig config() {
        return model.config();
    }
}
