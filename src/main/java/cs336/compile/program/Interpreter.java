package cs336.compile.program;

import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Argument.Views;
import cs336.torch.AtenOperator;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.AutoDispatchBelowADInplaceOrView;
import org.bytedeco.pytorch.GenericList;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorType;
import org.bytedeco.pytorch.Type;
import org.bytedeco.pytorch.global.torch;

/**
 * An interpreter that runs the operations of a program through PyTorch's dispatcher, below autograd. Each tensor is
 * freed after the last operation that reads it. The program runs on the first GPU that has one of its inputs or
 * constants, or on the CPU.
 */
public final class Interpreter {
    private static final int COMPLEX = 2; // reals per complex number

    private static final IValue NONE = MemoryScope.keep(new IValue());

    private final Program program;
    /** For each operation, and for each of its arguments: a view that is not in the layout of its value, or null. */
    private final List<BoxedView[]> views = new ArrayList<>();
    /** The memories that no run uses at present. */
    private final Deque<RunMemory> memories = new ArrayDeque<>();
    /** For each operation, the storages that no later operation reads, by the id of their first value. */
    private final List<List<Integer>> lastUses = new ArrayList<>();

    private Device device; // null before the first run

    /** Creates an interpreter of a program. */
    public Interpreter(Program program) {
        this.program = program;
        Map<Integer, Integer> last = new HashMap<>();
        List<Operation> operations = program.operations();
        for (int i = 0; i < operations.size(); i++) {
            for (View view : operations.get(i).reads()) {
                last.put(view.value().root().id(), i);
            }
            for (ProgramValue created : operations.get(i).creates()) {
                last.put(created.root().id(), i);
            }
            lastUses.add(new ArrayList<>());
            views.add(views(operations.get(i)));
        }
        program.inputs().forEach(input -> last.remove(input.root().id()));
        program.constants().keySet().forEach(constant -> last.remove(constant.id()));
        program.returned().forEach(value -> last.remove(value.root().id()));
        last.forEach((storage, i) -> lastUses.get(i).add(storage));
    }

    private static BoxedView[] views(Operation operation) {
        return operation.arguments().stream()
                .map(argument -> argument instanceof View view && !view.isWhole() ? BoxedView.of(view) : null)
                .toArray(BoxedView[]::new);
    }

    /**
     * Runs the program.
     *
     * @param inputs one tensor per input of the program, with the dtypes, shapes and strides of the recording
     * @return the outputs, in the caller's memory scope; null for one that does not exist
     */
    public Tensor[] run(Tensor... inputs) {
        try (ProgramRun run = start(inputs)) {
            run.advance(program.operations().size());
            Tensor[] outputs = new Tensor[program.outputs().size()];
            Arrays.setAll(outputs, run::output);
            return outputs;
        }
    }

    /**
     * Starts a run that the caller advances in sections.
     *
     * @param inputs as for {@link #run}; they must live as long as the run
     */
    public ProgramRun start(Tensor... inputs) {
        return new ProgramRun(inputs);
    }

    /** A run of the program that has reached one of its operations. */
    public final class ProgramRun implements AutoCloseable {
        private final RunMemory memory = memories.isEmpty() ? new RunMemory() : memories.pop();
        private int next;
        private boolean closed;

        private ProgramRun(Tensor... inputs) {
            memory.begin(inputs);
        }

        /** Runs the remaining operations before index {@code end}. */
        public void advance(int end) {
            try (var below = new AutoDispatchBelowADInplaceOrView();
                    var noGrad = NoGrad.open()) {
                for (; next < end; next++) {
                    memory.execute(next);
                    lastUses.get(next).forEach(memory::free);
                }
            }
        }

        /**
         * Returns an output that the run has reached, in the caller's memory scope; null for one that does not exist.
         */
        public Tensor output(int i) {
            View view = program.outputs().get(i);
            if (view == null) {
                return null;
            }
            try (var scope = MemoryScope.open();
                    var below = new AutoDispatchBelowADInplaceOrView()) {
                return scope.escape(new Tensor(memory.read(view)));
            }
        }

        /** Frees the tensors of the run. */
        @Override
        public void close() {
            if (!closed) {
                closed = true;
                memory.clear();
                memories.push(memory);
            }
        }
    }

    /**
     * The boxed tensors of one run, by the id of their value. Later runs reuse the native objects, because creating one
     * takes the host as long as a small operator.
     */
    private final class RunMemory {
        private final Tensor[] given = new Tensor[program.size()]; // inputs and constants
        private final IValue[] boxed = new IValue[program.size()];
        private final BitSet isSet = new BitSet(program.size());
        private final BitSet hasLayout = new BitSet(program.size()); // the storage offset is that of the value's layout
        private final IValueVector stack = MemoryScope.keep(new IValueVector());
        private final IValueVector work = MemoryScope.keep(new IValueVector());

        void begin(Tensor... inputs) {
            for (int i = 0; i < inputs.length; i++) {
                ProgramValue value = program.inputs().get(i).root();
                if (given[value.id()] == null) {
                    give(value, inputs[i]);
                }
            }
            program.constants().forEach(this::give);
            if (device == null) {
                device = Arrays.stream(given)
                        .filter(tensor -> tensor != null && tensor.is_cuda())
                        .findFirst()
                        .map(Device::of)
                        .orElse(Device.cpu());
            }
        }

        private void give(ProgramValue value, Tensor tensor) {
            given[value.id()] = tensor;
            try (var cell = new IValue(tensor)) {
                set(value, cell, tensor.storage_offset() == value.layout().offset());
            }
        }

        private void set(ProgramValue value, IValue tensor, boolean isLikeLayout) {
            int id = value.id();
            if (boxed[id] == null) {
                boxed[id] = MemoryScope.keep(new IValue(tensor));
            } else {
                boxed[id].put(tensor);
            }
            isSet.set(id);
            hasLayout.set(id, isLikeLayout);
        }

        void free(int id) {
            boxed[id].put(NONE);
            isSet.clear(id);
        }

        void clear() {
            isSet.stream().forEach(id -> boxed[id].put(NONE));
            isSet.clear();
            Arrays.fill(given, null);
            stack.resize(0);
            work.resize(0);
        }

        /** Returns the tensor that reads a value in the layout of a view. */
        Tensor read(View view) {
            int id = view.value().root().id();
            return Interpreter.read(view, given[id] == null ? boxed[id].toTensor() : given[id]);
        }

        void execute(int index) {
            Operation operation = program.operations().get(index);
            try (var scope = MemoryScope.open()) {
                if (operation.operator() instanceof DispatchedOperator operator) {
                    putArguments(index);
                    operator.call(operation, stack);
                    storeResults(operation);
                    stack.resize(0);
                } else {
                    store(operation, ((TensorOperator) operation.operator()).run(operation, this::read, device));
                }
                for (ProgramValue written : operation.overwrites()) {
                    Tensor tensor = given[written.root().id()];
                    if (tensor != null && !tensor.is_inference()) {
                        tensor.unsafeGetTensorImpl().bump_version(); // the keys of the call skip ADInplaceOrView
                    }
                }
            }
        }

        private void putArguments(int index) {
            List<Argument> arguments = program.operations().get(index).arguments();
            stack.resize(arguments.size());
            for (int i = 0; i < arguments.size(); i++) {
                Argument argument = arguments.get(i);
                if (argument instanceof View view) {
                    putView(view, views.get(index)[i], i);
                } else if (argument instanceof Views list) {
                    stack.put(i, boxed(list));
                } else if (argument instanceof Constant constant) {
                    stack.put(i, constant.boxed());
                }
            }
        }

        private IValue boxed(Views list) {
            var tensors = new GenericList(new Type.TypePtr(TensorType.get()));
            list.views().forEach(view -> tensors.push_back(new IValue(read(view))));
            return new IValue(tensors);
        }

        private void putView(View view, BoxedView strided, int i) {
            int id = view.value().root().id();
            if (strided == null && view.isWhole()) {
                stack.put(i, boxed[id]);
            } else if (strided != null && hasLayout.get(id)) {
                strided.put(boxed[id], work, stack, i);
            } else {
                stack.put(i, new IValue(read(view)));
            }
        }

        /** Stores the results on the stack. */
        private void storeResults(Operation operation) {
            List<ProgramValue> outputs = operation.outputs();
            boolean areTensors = stack.size() == outputs.size();
            for (int i = 0; i < outputs.size() && areTensors; i++) {
                areTensors = stack.get(i).isTensor();
            }
            if (!areTensors) { // lists or numbers among the results
                store(operation, AtenOperator.tensors(stack));
                return;
            }
            for (int i = 0; i < outputs.size(); i++) {
                if (outputs.get(i) != null) {
                    set(outputs.get(i), stack.get(i), true);
                }
            }
        }

        private void store(Operation operation, List<Tensor> results) {
            for (int i = 0; i < operation.outputs().size(); i++) {
                ProgramValue output = operation.outputs().get(i);
                if (output != null) {
                    set(output, new IValue(results.get(i)), false);
                }
            }
        }
    }

    /**
     * Returns a tensor in the layout of a view.
     *
     * @param tensor the tensor of the view's value, in the layout of the value
     */
    public static Tensor read(View view, Tensor tensor) {
        Layout have = view.value().layout();
        Layout want = view.layout();
        if (have.equals(want)) {
            return tensor;
        }
        boolean fromComplex = have.dtype() == DType.COMPLEX64;
        boolean toComplex = want.dtype() == DType.COMPLEX64;
        Tensor reals = fromComplex ? torch.view_as_real(have.conjugated() ? tensor.conj() : tensor) : tensor;
        Layout ofReals = toComplex ? want.asReal() : want;
        long moved = reals.storage_offset() - (fromComplex ? COMPLEX : 1) * have.offset();
        Tensor read = ofReals.withOffset(moved + ofReals.offset()).view(reals);
        if (!toComplex) {
            return read;
        }
        Tensor complex = torch.view_as_complex(read);
        return want.conjugated() ? complex.conj() : complex;
    }
}
