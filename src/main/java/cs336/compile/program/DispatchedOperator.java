package cs336.compile.program;

import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Argument.Views;
import cs336.torch.AtenOperator;
import java.util.BitSet;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.GenericList;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorType;
import org.bytedeco.pytorch.Type;

/**
 * An operator of PyTorch's dispatcher.
 *
 * @param name namespace, name and overload, such as {@code aten::add.Tensor}
 * @param handle calls it; lives as long as the process
 * @param written the arguments that it writes to
 * @param isRandom whether the result depends on a random number generator
 */
public record DispatchedOperator(String name, OperatorHandle handle, BitSet written, boolean isRandom)
        implements Operator {
    private static final String ATEN = "aten::";

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
        var stack = new IValueVector();
        operation.arguments().forEach(argument -> stack.push_back(box(argument, read)));
        call(operation, stack);
        return AtenOperator.tensors(stack);
    }

    /** Replaces the boxed arguments of a recorded operation by its boxed results. */
    void call(Operation operation, IValueVector stack) {
        handle.redispatchBoxed(operation.keys(), stack);
    }

    private static IValue box(Argument argument, Function<View, Tensor> read) {
        if (argument instanceof View view) {
            return new IValue(read.apply(view));
        } else if (argument instanceof Views list) {
            var tensors = new GenericList(new Type.TypePtr(TensorType.get()));
            list.views().forEach(view -> tensors.push_back(new IValue(read.apply(view))));
            return new IValue(tensors);
        }
        return ((Constant) argument).boxed();
    }

    @Override
    public String toString() {
        return name.startsWith(ATEN) ? name.substring(ATEN.length()) : name;
    }
}
