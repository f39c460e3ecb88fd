package cs336.torch;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.bytedeco.pytorch.Dispatcher;
import org.bytedeco.pytorch.GenericList;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorType;
import org.bytedeco.pytorch.Type;

/**
 * An operator of PyTorch's dispatcher, called by name, for operators without a binding such as the multi-tensor ones:
 * {@code AtenOperator.of("aten::_foreach_mul_", "Scalar").call(parameters, 0.5)}.
 */
public final class AtenOperator {
    static {
        Torch.load();
    }

    /** The element type of a tensor list, which the dispatcher requires. */
    private static final Type.TypePtr TENSOR = tensorType();

    private final OperatorHandle handle;
    private final String name;

    private AtenOperator(String name, String overload) {
        Objects.requireNonNull(name, "name must not be null");
        this.name = overload.isEmpty() ? name : name + "." + overload;
        try {
            this.handle = MemoryScope.keep(Dispatcher.singleton().findSchemaOrThrow(name, overload));
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("libtorch has no operator " + this.name, e);
        }
    }

    /**
     * Returns an operator.
     *
     * @param name the name with its namespace, such as {@code aten::_foreach_add_}
     * @param overload the name after the dot in {@code native_functions.yaml}, or an empty string
     * @throws IllegalArgumentException if there is no such operator
     */
    public static AtenOperator of(String name, String overload) {
        try (var scope = MemoryScope.open()) {
            return new AtenOperator(name, overload);
        }
    }

    /**
     * Calls the operator with all arguments of its schema, in order and including those with defaults.
     *
     * @param arguments each a {@link Tensor}, a {@link TensorList}, a {@code Double}, {@code Long}, {@code Boolean}, or
     *     null for None
     * @return the tensors among the results, in order and with tensor lists flattened, in the caller's memory scope
     * @throws IllegalArgumentException if an argument has another class or is a closed tensor
     */
    public List<Tensor> call(Object... arguments) {
        try (var scope = MemoryScope.open()) {
            var stack = new IValueVector();
            for (Object argument : arguments) {
                stack.push_back(box(argument));
            }
            callBoxed(stack);
            List<Tensor> results = tensors(stack);
            results.replaceAll(tensor -> scope.escape(new Tensor(tensor)));
            return results;
        }
    }

    /** Replaces the boxed arguments on a stack by the boxed results. */
    public void callBoxed(IValueVector stack) {
        handle.callBoxed(stack);
    }

    /** Returns the tensors on a stack, in order and with lists flattened. They live as long as the stack. */
    public static List<Tensor> tensors(IValueVector stack) {
        List<Tensor> tensors = new ArrayList<>();
        for (long i = 0; i < stack.size(); i++) {
            IValue value = stack.get(i);
            if (value.isTensor()) {
                tensors.add(value.toTensor());
            } else if (value.isTensorList()) {
                tensors.addAll(List.of(value.toTensorVector().get()));
            }
        }
        return tensors;
    }

    private IValue box(Object argument) {
        if (argument == null) {
            return new IValue();
        } else if (argument instanceof Tensor tensor) {
            if (tensor.isNull()) {
                throw new IllegalArgumentException("an argument of " + name + " is closed; its memory scope has ended");
            }
            return new IValue(tensor);
        } else if (argument instanceof TensorList list) {
            return list.boxed;
        } else if (argument instanceof Double number) {
            return new IValue(number.doubleValue());
        } else if (argument instanceof Long number) {
            return new IValue(number.longValue());
        } else if (argument instanceof Boolean flag) {
            return new IValue(flag.booleanValue());
        }
        throw new IllegalArgumentException(
                "argument of " + name + " must be a Tensor, TensorList, Double, Long, Boolean or null, not a "
                        + argument.getClass().getName());
    }

    /**
     * A list of tensors as the dispatcher takes it. Building it takes about 1 µs per tensor, so it should be reused for
     * calls with the same tensors.
     */
    public static final class TensorList implements AutoCloseable {
        private final IValue boxed;

        private TensorList(IValue boxed) {
            this.boxed = boxed;
        }

        /** Creates a list that refers to these tensors without copying them. It lives until it is closed. */
        public static TensorList of(Iterable<Tensor> tensors) {
            try (var scope = MemoryScope.open()) {
                var list = new GenericList(TENSOR);
                for (Tensor tensor : tensors) {
                    try (IValue element = new IValue(tensor)) {
                        list.push_back(element);
                    }
                }
                return new TensorList(MemoryScope.keep(new IValue(list)));
            }
        }

        @Override
        public void close() {
            boxed.close();
        }
    }

    private static Type.TypePtr tensorType() {
        try (var scope = MemoryScope.open()) {
            return MemoryScope.keep(new Type.TypePtr(TensorType.get()));
        }
    }
}
