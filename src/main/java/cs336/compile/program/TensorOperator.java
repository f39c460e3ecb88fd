package cs336.compile.program;

import cs336.compile.program.Argument.View;
import cs336.torch.Device;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** An operator that is not in PyTorch's dispatcher: a function of tensors in Java, which may launch kernels. */
public non-sealed interface TensorOperator extends Operator {
    /**
     * Runs an operation of this operator.
     *
     * @param read returns the tensor of an argument
     * @param device where the program runs
     * @return the results in the order of {@link Operation#outputs}, in the caller's memory scope
     */
    List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device);
}
