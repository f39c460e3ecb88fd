package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.TensorOperator;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * The operator without arguments that returns a new seed in each run of a program, for
 * {@link PointwiseFunction#RANDOM}: a 0-dimensional int64 tensor. PyTorch's generator of the device draws it, so
 * {@code manual_seed} makes runs reproducible, and a checkpoint of the generator's state covers it. A CUDA graph
 * contains only the copy of a tensor, into which each replay draws a seed first. Each run that a graph contains has a
 * tensor of its own.
 *
 * @param device the device of the seed
 */
record RandomSeed(Device device) implements TensorOperator {
    static final Layout LAYOUT = Layout.contiguous(DType.INT64);

    @Override
    public boolean isRandom() {
        return true;
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
        Tensor seed = LAYOUT.empty(device);
        if (CudaGraph.isRecordedOn(device)) {
            CudaGraph.beforeEachReplay(seed, RandomSeed::draw);
            return List.of(seed.clone());
        }
        draw(seed);
        return List.of(seed);
    }

    private static void draw(Tensor seed) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            seed.random_();
        }
    }

    @Override
    public String toString() {
        return "random_seed";
    }
}
