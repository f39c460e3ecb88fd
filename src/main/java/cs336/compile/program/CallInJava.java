package cs336.compile.program;

import cs336.compile.program.Argument.View;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** An operator that is implemented in Java. */
public record CallInJava(JavaOperator function) implements TensorOperator {
    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device) {
        return List.of(function.compute(operation.reads().stream().map(read).toArray(Tensor[]::new)));
    }

    @Override
    public String toString() {
        return function.name();
    }
}
