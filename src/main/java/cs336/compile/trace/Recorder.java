package cs336.compile.trace;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Argument.Views;
import cs336.compile.program.CallInJava;
import cs336.compile.program.DispatchedOperator;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Operator;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.AtenOperator;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import cs336.torch.OperatorInterceptor.OperatorCall;
import cs336.torch.OperatorInterceptor.OperatorListener;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.DispatchKeySet;
import org.bytedeco.pytorch.FunctionSchema;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;
import org.bytedeco.pytorch.SchemaArgument;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.WeakIValue;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.SchemaArgType;
import org.bytedeco.pytorch.global.torch.Tag;

/**
 * A recorder of functions of tensors. The function runs once, as it would without the recording, and the operators that
 * it calls become a {@link Program}.
 *
 * <p>Tensors are identified by their storage, since autograd creates tensor objects without calling an operator. A view
 * is therefore no operation, also if it is in place: operations read storages through a {@link Layout}.
 */
public final class Recorder implements OperatorListener {
    /**
     * The run of a function that was recorded.
     *
     * @param outputs the outputs of this run, in the caller's memory scope
     */
    public record RecordedRun(Program program, Tensor[] outputs) {}

    private static final Map<Long, DispatchedOperator> OPERATORS = new ConcurrentHashMap<>();
    /** Operators that read elements on the host, and functions that call them. */
    private static final Map<String, String> READS_ON_HOST = Map.of(
            "aten::_local_scalar_dense", ", as item() does, and BatchNorm without a momentum in training mode",
            "aten::nonzero", "",
            "aten::masked_select",
                    ", as cross-entropy with class weights, label smoothing and a mean does; use its sum");
    /** An operator that reads elements on the host, unless its answer is a constant. */
    private static final String EQUAL = "aten::equal";
    /** Operators whose kernels call operators that autocast casts. With autocast they are recorded as those. */
    private static final Set<String> COMPOSITES = Set.of("aten::_trilinear");
    /** Operators whose overloads with {@code out} lack the tag {@code dynamic_output_shape}. */
    private static final Set<String> DYNAMIC_SHAPES = Set.of(
            "aten::_unique",
            "aten::_unique2",
            "aten::unique_dim",
            "aten::unique_consecutive",
            "aten::unique_dim_consecutive",
            "aten::bincount",
            "aten::repeat_interleave");
    /** Operators that update running statistics in training mode, which their schemas do not declare. */
    private static final Set<String> BATCH_NORMS =
            Set.of("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm");
    /** An operator that overwrites the workspace of its forward pass, which its schema does not declare. */
    private static final String RNN_BACKWARD = "aten::_cudnn_rnn_backward";

    private static final int RNN_WORKSPACE = 20; // its argument
    private static final String RESIZE = "aten::resize_"; // also the beginning of aten::resize_as_

    private static final Pattern LIBRARY =
            Pattern.compile("(org\\.bytedeco|com\\.sun\\.jna|java|jdk|cs336\\.torch)\\..*"
                    + "|cs336\\.compile\\.(trace\\..*|program\\..*|Compiled|CompiledProgram|CompiledStep"
                    + "|DifferentiableProgram|ShapeGraph)(\\$.*)?");
    private static final StackWalker STACK = StackWalker.getInstance();

    private final Map<Long, String> names = new HashMap<>(); // by storage address
    private final Map<Long, ProgramValue> current = new HashMap<>(); // by storage address: its value at this point
    private final Map<ProgramValue, Long> addresses = new HashMap<>(); // by first value: the address of its storage
    private final Map<Long, Long> bytes = new HashMap<>(); // by storage address: its size
    private final UnwrittenValues unwritten = new UnwrittenValues();
    private final List<WeakIValue> storages = new ArrayList<>();
    private final Map<ProgramValue, Tensor> constants = new LinkedHashMap<>();
    private final Set<ProgramValue> outside = new HashSet<>(); // inputs and constants
    private final List<Operation> operations = new ArrayList<>();
    private int size;

    private Recorder() {}

    /**
     * Runs a function and returns its program.
     *
     * @throws UnrecordableException if the function reads elements of tensors on the host, or calls an operator that
     *     cannot be recorded
     * @throws IllegalStateException if this thread is recording already
     */
    public static Program record(TensorFunction function, Tensor... inputs) {
        return run(function, Map.of(), inputs).program();
    }

    /**
     * Runs a function and returns its program and its outputs.
     *
     * @param names names of tensors that the function reads besides its inputs, such as parameters, for printed
     *     programs
     * @throws UnrecordableException if the function reads elements of tensors on the host, or calls an operator that
     *     cannot be recorded
     * @throws IllegalStateException if this thread is recording already
     */
    public static RecordedRun run(TensorFunction function, Map<String, Tensor> names, Tensor... inputs) {
        return new Recorder().recorded(function, names, inputs);
    }

    private RecordedRun recorded(TensorFunction function, Map<String, Tensor> named, Tensor... inputs) {
        Program program = null;
        try (var scope = MemoryScope.open()) {
            named.forEach((name, tensor) -> names.put(storage(tensor), name));
            List<ProgramValue> inputValues = new ArrayList<>();
            List<Layout> layouts = new ArrayList<>();
            for (Tensor input : inputs) {
                ProgramValue value = current.get(storage(input));
                if (value == null) {
                    value = newValue("input" + inputValues.size(), input, "the caller");
                }
                inputValues.add(value);
                layouts.add(layout(input, "the caller"));
            }
            outside.addAll(inputValues);
            Tensor[] before = inputs.clone(); // the function may replace the elements
            List<Boolean> requireGrad =
                    Arrays.stream(inputs).map(Tensor::requires_grad).toList();
            torch.clear_cache(); // casts of parameters that autocast has cached would look like constants
            Tensor[] results = intercepted(function, inputs);
            for (int i = 0; i < before.length; i++) {
                requireUnchanged("input " + i, before[i], inputValues.get(i), layouts.get(i));
                if (before[i].is_leaf() && before[i].requires_grad() != requireGrad.get(i)) {
                    throw new UnrecordableException("it changes requires_grad of input " + i, "");
                }
            }
            constants.forEach((value, tensor) -> requireUnchanged(value.toString(), tensor, value, value.layout()));
            List<View> outputs = new ArrayList<>();
            if (results == null) {
                throw new UnrecordableException("it returns null instead of an array", "");
            }
            Tensor[] own = results.clone(); // separate handles, because the function may return an input
            for (int i = 0; i < own.length; i++) {
                if (own[i] != null && !own[i].defined()) {
                    throw new UnrecordableException("output " + i + " is an undefined tensor", "");
                }
                View output = own[i] == null ? null : view(own[i], "the caller");
                if (output != null && unwritten.contains(output.value())) {
                    throw new UnrecordableException("output " + i + UnwrittenValues.DEPENDS, "");
                }
                outputs.add(output);
                own[i] = own[i] == null ? null : scope.escape(new Tensor(own[i]));
            }
            program = new Program(inputValues, constants, List.copyOf(operations), outputs, size);
            return new RecordedRun(program, own);
        } finally {
            if (program == null) {
                constants.values().forEach(Tensor::close);
            }
            storages.forEach(WeakIValue::close);
        }
    }

    /** Runs the function. An operator's exception that the function catches ends the recording. */
    private Tensor[] intercepted(TensorFunction function, Tensor... inputs) {
        var results = new AtomicReference<Tensor[]>();
        var hasReturned = new AtomicBoolean();
        try {
            OperatorInterceptor.run(this, () -> {
                results.set(function.apply(inputs));
                hasReturned.set(true);
            });
            return results.get();
        } catch (RuntimeException e) {
            if (hasReturned.get() && e.getClass() == RuntimeException.class) { // as PyTorch's operators throw it
                String reason =
                        String.valueOf(e.getMessage()).lines().findFirst().orElse("");
                throw new UnrecordableException("it catches an exception of an operator: " + reason, "", e);
            }
            throw e;
        }
    }

    /** Throws if a tensor outside of the function has another shape or other memory than before. */
    private void requireUnchanged(String name, Tensor tensor, ProgramValue value, Layout before) {
        if (storage(tensor) != addresses.get(value.root())
                || !layout(tensor, "the function").equals(before)) {
            throw new UnrecordableException("it changes the shape or replaces the memory of " + name, "");
        }
        requireKnownSize(tensor);
    }

    /** Throws if the storage has been resized by no recorded operation. */
    private void requireKnownSize(Tensor tensor) {
        if (tensor.storage().nbytes() != bytes.get(storage(tensor))) {
            throw new UnrecordableException("it resizes a tensor in an operator that cannot be recorded", source());
        }
    }

    @Override
    public void dispatched(OperatorCall call) {
        IValueVector stack = call.stack();
        DispatchedOperator operator =
                OPERATORS.computeIfAbsent(call.operatorId(), id -> recordable(call.handle(), stack.size()));
        if (operator.isInPlaceView()) {
            call.proceed();
            return;
        } else if (COMPOSITES.contains(operator.name())
                && Autocast.isEnabled(stack.get(0).toTensor())) {
            call.decompose();
            return;
        }
        List<Argument> arguments = new ArrayList<>();
        for (long i = 0; i < stack.size(); i++) {
            arguments.add(argument(operator, stack.get(i)));
        }
        BitSet written = written(operator, arguments);
        Map<Integer, IValue> targets = new HashMap<>();
        written.stream().forEach(i -> targets.put(i, new IValue(stack.get(i))));
        DispatchKeySet keys = MemoryScope.keep(call.keys());
        call.proceed();
        if (operator.name().equals(EQUAL) && !isConstant(stack.get(0).toBool(), arguments)) {
            throw new UnrecordableException(
                    "equal reads elements of a tensor on the host, unless its tensors have different shapes or are the"
                            + " same tensor without NaN; MultiheadAttention compares query, key and value",
                    source());
        }
        List<Tensor> results = AtenOperator.tensors(stack);
        Set<Long> enlarged = new HashSet<>();
        targets.forEach((i, target) -> arguments.set(i, resized(operator, arguments, i, target, enlarged)));
        record(operator, arguments, written, results, enlarged, keys);
    }

    /** Returns whether the answer of {@code equal} depends on the recorded shapes, or on NaN only. */
    private static boolean isConstant(boolean answer, List<Argument> arguments) {
        return arguments.get(0) instanceof View view
                && arguments.get(1) instanceof View other
                && (answer ? view.equals(other) : !Arrays.equals(view.shape(), other.shape()));
    }

    /**
     * Returns an argument as an operator that writes to it leaves it. The replayed operator then has no reason to
     * change the tensor's shape. An argument whose storage had to grow stays as it was.
     *
     * @param arguments the arguments before the call
     * @param index the index of the argument
     * @param target the argument after the call
     * @param enlarged receives the addresses of storages that have grown
     */
    private Argument resized(
            DispatchedOperator operator, List<Argument> arguments, int index, IValue target, Set<Long> enlarged) {
        Argument before = arguments.get(index);
        List<Tensor> tensors = AtenOperator.tensors(new IValueVector(target));
        boolean isEnlarged = false;
        for (int i = 0; i < tensors.size(); i++) {
            long address = tensors.get(i).defined() ? storage(tensors.get(i)) : 0;
            if (address != 0 && tensors.get(i).storage().nbytes() != bytes.get(address)) {
                if (outside.contains(before.tensors().get(i).value().root())) {
                    throw new UnrecordableException("it resizes a tensor outside of it", source());
                }
                isEnlarged = true;
                enlarged.add(address);
            }
        }
        Argument after = isEnlarged ? before : argument(operator, target);
        if ((isEnlarged || !after.equals(before)) && Collections.frequency(arguments, before) > 1) {
            throw new UnrecordableException(
                    operator + " resizes a tensor that it also reads; pass another tensor for the result", source());
        }
        for (int i = 0; i < after.tensors().size(); i++) {
            if (after.tensors().get(i).layout().conjugated()
                    != before.tensors().get(i).layout().conjugated()) {
                throw new UnrecordableException(operator + " conjugates a tensor that it writes to", source());
            }
        }
        return after;
    }

    @Override
    public Tensor[] called(JavaOperator operator, Tensor... inputs) {
        List<Argument> arguments = new ArrayList<>();
        for (Tensor input : inputs) {
            arguments.add(view(input, operator.name()));
        }
        Tensor[] outputs = operator.compute(inputs);
        record(new CallInJava(operator), arguments, new BitSet(), List.of(outputs), new HashSet<>(), null);
        return outputs;
    }

    @Override
    public void refuseRead() {
        throw new UnrecordableException("it reads elements of a tensor on the host", source());
    }

    /**
     * Records an operation.
     *
     * @param written the arguments that it writes to
     * @param enlarged the addresses of storages that it has resized; a result in one of them is a new value
     */
    private void record(
            Operator operator,
            List<Argument> arguments,
            BitSet written,
            List<Tensor> results,
            Set<Long> enlarged,
            DispatchKeySet keys) {
        List<ProgramValue> overwrites = new ArrayList<>();
        Set<ProgramValue> before = new HashSet<>();
        for (int i = 0; i < arguments.size(); i++) {
            for (View view : arguments.get(i).tensors()) {
                before.add(view.value());
                if (written.get(i)) {
                    overwrites.add(new ProgramValue(size++, view.value()));
                }
            }
        }
        for (ProgramValue value : overwrites) {
            before.add(value);
            current.replace(addresses.get(value.root()), value.overwritten(), value);
        }
        List<ProgramValue> outputs = new ArrayList<>();
        boolean hasNew = false;
        for (Tensor result : results) {
            boolean isNew = result.defined()
                    && (!before.contains(current.get(storage(result))) || enlarged.remove(storage(result)));
            hasNew |= isNew;
            outputs.add(isNew ? newValue("%" + size, result, operator) : null);
        }
        if (!overwrites.isEmpty() || hasNew) {
            var operation = new Operation(operator, arguments, outputs, overwrites, keys);
            operations.add(operation);
            boolean dependsOnUnwritten = unwritten.add(operation, written);
            if (dependsOnUnwritten && overwrites.stream().anyMatch(value -> outside.contains(value.root()))) {
                throw new UnrecordableException("a tensor outside of it" + UnwrittenValues.DEPENDS, source());
            }
        }
    }

    /** Returns the arguments that a call writes to. */
    private static BitSet written(DispatchedOperator operator, List<Argument> arguments) {
        var undeclared = new BitSet();
        if (BATCH_NORMS.contains(operator.name())) {
            // (input, weight, bias, running_mean, running_var, training, momentum, eps)
            boolean isTraining = arguments.get(5) instanceof Constant flag && Boolean.TRUE.equals(flag.value());
            undeclared.set(3, 5, isTraining);
        } else if (operator.name().equals(RNN_BACKWARD)) {
            undeclared.set(RNN_WORKSPACE);
        } else {
            return operator.written();
        }
        return undeclared;
    }

    private Argument argument(Operator operator, IValue value) {
        if (value.isTensor()) {
            Tensor tensor = value.toTensor();
            boolean isNumber =
                    tensor.defined() && tensor.unsafeGetTensorImpl().is_wrapped_number() && !tensor.is_complex();
            if (isNumber) {
                Number number =
                        tensor.is_floating_point() ? (Number) tensor.item_double() : (Number) tensor.item_long();
                return new Constant(number, MemoryScope.keep(new IValue(value)));
            }
            return tensor.defined() ? view(tensor, operator) : new Constant(null, MemoryScope.keep(new IValue(value)));
        }
        if (value.isTensorList()) {
            List<View> views = new ArrayList<>();
            for (Tensor tensor : value.toTensorVector().get()) {
                views.add(view(tensor, operator));
            }
            return new Views(views);
        }
        if (value.isOptionalTensorList() || value.isGenerator() || value.isGenericDict() || value.isStorage()) {
            throw new UnrecordableException(operator + " has an argument that cannot be recorded", source());
        }
        return new Constant(plain(value), MemoryScope.keep(new IValue(value)));
    }

    private static Object plain(IValue value) {
        if (value.isNone()) {
            return null;
        } else if (value.isInt()) {
            return value.toInt();
        } else if (value.isIntList()) {
            return value.toIntVector().get();
        } else if (value.isBool()) {
            return value.toBool();
        } else if (value.isDouble()) {
            return value.toDouble();
        }
        String kind = value.tagKind().getString();
        return switch (kind) {
            case "ComplexDouble" ->
                value.toComplexDouble().real() + " + " + value.toComplexDouble().imag() + "i";
            case "String" -> value.toStringRef().getString();
            case "Device" -> value.toDevice().str().getString();
            default ->
                value.isDoubleList() ? Arrays.toString(value.toDoubleVector().get()) : unknown(kind);
        };
    }

    /** Returns a value that equals only itself, so that no two operations look equal by it. Its text is the kind. */
    private static Object unknown(String kind) {
        return new Object() {
            @Override
            public String toString() {
                return kind;
            }
        };
    }

    /**
     * Returns the view by which an operation reads a tensor. A tensor that no operation returned becomes a constant.
     */
    private View view(Tensor tensor, Object user) {
        if (tensor.is_neg()) {
            throw new UnrecordableException("a lazily negated tensor cannot be recorded", source());
        }
        long address = storage(tensor);
        ProgramValue value = current.get(address);
        if (value == null) {
            String name = names.getOrDefault(address, "constant" + constants.size());
            value = newValue(name, tensor, user);
            constants.put(value, MemoryScope.keep(new Tensor(tensor)));
            outside.add(value);
        }
        requireKnownSize(tensor);
        Layout layout = layout(tensor, user);
        if (!isReadable(value.dtype(), layout.dtype())) {
            throw new UnrecordableException(
                    "a view of " + value.dtype() + " as " + layout.dtype() + " cannot be recorded", source());
        }
        return new View(value, layout);
    }

    /**
     * Returns whether a value can be read in a dtype: in its own, or complex numbers as pairs of reals and vice versa.
     */
    private static boolean isReadable(DType have, DType want) {
        return have == want
                || have == DType.COMPLEX64 && want == DType.FLOAT32
                || have == DType.FLOAT32 && want == DType.COMPLEX64;
    }

    private ProgramValue newValue(String name, Tensor tensor, Object user) {
        DeviceKind device = tensor.is_cuda() ? DeviceKind.CUDA : DeviceKind.CPU;
        var value = new ProgramValue(size++, name, layout(tensor, user), device);
        long address = storage(tensor);
        bytes.put(address, tensor.storage().nbytes());
        if (!current.containsKey(address)) {
            // A weak reference keeps the address from being used again while the memory is freed as always.
            storages.add(MemoryScope.keep(new WeakIValue(new IValue(tensor.storage()))));
        }
        current.put(address, value);
        addresses.put(value, address);
        return value;
    }

    /** @param user the operator that reads or returns the tensor */
    private static Layout layout(Tensor tensor, Object user) {
        try {
            return Layout.of(tensor);
        } catch (IllegalArgumentException e) {
            throw new UnrecordableException(
                    user + " reads or returns a tensor of the unsupported dtype " + tensor.scalar_type(), source());
        }
    }

    private static long storage(Tensor tensor) {
        if (!tensor.has_storage()) {
            throw new UnrecordableException("a tensor that is not dense cannot be recorded", source());
        }
        return tensor.storage().unsafeGetStorageImpl().address();
    }

    /** Returns an operator, or throws if it cannot be recorded. */
    private static DispatchedOperator recordable(OperatorHandle handle, long arguments) {
        FunctionSchema schema = handle.schema();
        var writes = new BitSet();
        for (int i = 0; i < arguments; i++) {
            writes.set(i, schema.is_mutable(new SchemaArgument(SchemaArgType.input, i)));
        }
        BytePointer overload = schema.overload_name(); // null if it is empty
        String name = schema.name().getString() + (overload == null ? "" : "." + overload.getString());
        OperatorHandle own = new OperatorHandle(handle); // the given one ends with the call
        boolean isInPlaceView = handle.hasTag(Tag.inplace_view) && !name.startsWith(RESIZE);
        boolean isRandom = handle.hasTag(Tag.nondeterministic_seeded);
        var operator = new DispatchedOperator(name, own, writes, isRandom, isInPlaceView);
        String readers = READS_ON_HOST.get(schema.name().getString());
        if (readers != null) {
            throw new UnrecordableException(operator + " reads elements of a tensor on the host" + readers, source());
        } else if (handle.hasTag(Tag.dynamic_output_shape)
                || DYNAMIC_SHAPES.contains(schema.name().getString())) {
            throw new UnrecordableException(
                    "the shape of the result of " + operator
                            + " depends on elements of a tensor; call it outside of the function",
                    source());
        }
        MemoryScope.keep(own);
        return operator;
    }

    /** Returns the innermost Java line outside of this library's tensor layer, which called the operator. */
    private static String source() {
        return STACK.walk(frames -> frames.filter(
                        frame -> !LIBRARY.matcher(frame.getClassName()).matches())
                .findFirst()
                .map(frame -> SourceLine.of(frame.toStackTraceElement()))
                .orElse(""));
    }
}
