package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.TensorOperator;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * The operator without arguments that returns a new seed in each run of a program, for
 * {@link PointwiseOperator#RANDOM}: a 0-dimensional int64 tensor. PyTorch's generator of the device draws it, so
 * {@code manual_seed} makes runs reproducible, and a checkpoint of the generator's state covers it. Each run that a
 * CUDA graph contains has a {@linkplain CudaGraph#newSeed seed of its own}.
 */
record RandomSeed() implements TensorOperator {
    static final Layout LAYOUT = Layout.contiguous(DType.INT64);

    @Override
    public boolean isRandom() {
        return true;
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device) {
        if (CudaGraph.isRecordedOn(device)) {
            return List.of(CudaGraph.newSeed());
        }
        Tensor seed = LAYOUT.empty(device);
        seed.random_();
        return List.of(seed);
    }

    @Override
    public String toString() {
        return "random_seed";
    }
}
