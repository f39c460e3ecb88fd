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
import java.util.Locale;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The operator that returns a new seed in each run of a program, for {@link PointwiseFunction#RANDOM}. PyTorch's
 * generator of the device draws it, so {@code manual_seed} makes runs reproducible, and a checkpoint of the generator's
 * state covers it. The argument is a constant of the program, a 0-dimensional int64 tensor that holds the seed of the
 * present run. A CUDA graph contains only the copy of this tensor; each replay draws a seed first.
 */
enum RandomSeed implements TensorOperator {
    RANDOM_SEED;

    static final Layout LAYOUT = Layout.contiguous(DType.INT64);

    /** Returns a tensor for the seed of a run, which the caller closes. */
    static Tensor newState(Device device) {
        try (var scope = MemoryScope.open()) {
            return MemoryScope.keep(torch.zeros(LAYOUT.shape(), device.options(LAYOUT.dtype())));
        }
    }

    @Override
    public boolean isRandom() {
        return true;
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
        Tensor state = read.apply(operation.input());
        if (CudaGraph.captureInProgress() == 0) {
            draw(state);
        } else {
            Tensor kept = MemoryScope.keep(new Tensor(state));
            CudaGraph.beforeEachReplay(() -> draw(kept));
        }
        return List.of(state.clone());
    }

    private static void draw(Tensor state) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            state.random_();
        }
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
