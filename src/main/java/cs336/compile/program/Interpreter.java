package cs336.compile.program;

import cs336.compile.program.Argument.View;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.AutoDispatchBelowADInplaceOrView;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Runs a program operation by operation through PyTorch's dispatcher, below autograd. Each tensor is freed after the
 * last operation that reads it.
 */
public final class Interpreter {
    private static final int COMPLEX = 2; // reals per complex number

    private final Program program;
    /** For each operation, the storages that no later operation reads, by the id of their first value. */
    private final List<List<Integer>> lastUses = new ArrayList<>();

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
        }
        program.inputs().forEach(input -> last.remove(input.root().id()));
        program.constants().keySet().forEach(constant -> last.remove(constant.id()));
        program.outputs().stream()
                .filter(Objects::nonNull)
                .forEach(view -> last.remove(view.value().root().id()));
        last.forEach((storage, i) -> lastUses.get(i).add(storage));
    }

    /** Returns the number of inputs of the program. */
    public int inputs() {
        return program.inputs().size();
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
            for (int i = 0; i < outputs.length; i++) {
                outputs[i] = run.output(i);
            }
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
        private final Tensor[] table = new Tensor[program.size()];
        private final BitSet computed = new BitSet(program.size()); // values in the table that this run owns
        private int next;

        private ProgramRun(Tensor... inputs) {
            for (int i = 0; i < inputs.length; i++) {
                int id = program.inputs().get(i).root().id();
                table[id] = table[id] == null ? inputs[i] : table[id];
            }
            program.constants().forEach((value, tensor) -> table[value.id()] = tensor);
        }

        /** Runs the next operations, up to but without that of index {@code end}. */
        public void advance(int end) {
            try (var below = new AutoDispatchBelowADInplaceOrView();
                    var noGrad = NoGrad.open()) {
                for (; next < end; next++) {
                    execute(program.operations().get(next));
                    lastUses.get(next).forEach(this::free);
                }
            }
        }

        private void execute(Operation operation) {
            try (var scope = MemoryScope.open()) {
                List<Tensor> results = operation.operator().run(operation, view -> read(view, table));
                for (int i = 0; i < operation.outputs().size(); i++) {
                    ProgramValue output = operation.outputs().get(i);
                    if (output != null) {
                        table[output.id()] = MemoryScope.keep(new Tensor(results.get(i)));
                        computed.set(output.id());
                    }
                }
            }
        }

        private void free(int storage) {
            table[storage].close();
            table[storage] = null;
            computed.clear(storage);
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
                return scope.escape(new Tensor(read(view, table)));
            }
        }

        /** Frees the tensors of the run. */
        @Override
        public void close() {
            for (int id = computed.nextSetBit(0); id >= 0; id = computed.nextSetBit(id + 1)) {
                table[id].close();
            }
            computed.clear();
        }
    }

    /** Returns the tensor that reads a value in the layout of a view. */
    private static Tensor read(View view, Tensor[] table) {
        Tensor tensor = table[view.value().root().id()];
        Layout have = view.value().layout();
        Layout want = view.layout();
        if (have.equals(want)) {
            return tensor;
        }
        boolean fromComplex = have.dtype() == DType.COMPLEX64;
        boolean toComplex = want.dtype() == DType.COMPLEX64;
        if (fromComplex && toComplex) {
            Tensor strided = strided(tensor, want, tensor.storage_offset() + want.offset() - have.offset());
            return want.conjugated() == have.conjugated() ? strided : strided.conj();
        }
        // The offset counts elements of the view's dtype.
        long start = fromComplex
                ? COMPLEX * (tensor.storage_offset() - have.offset())
                : tensor.storage_offset() - have.offset();
        Tensor reals = fromComplex ? torch.view_as_real(tensor) : tensor;
        if (!toComplex) {
            return strided(reals, want, start + want.offset());
        }
        Tensor complex = torch.view_as_complex(strided(reals, want.asReal(), start + COMPLEX * want.offset()));
        return want.conjugated() ? complex.conj() : complex;
    }

    private static Tensor strided(Tensor tensor, Layout layout, long offset) {
        return torch.as_strided(tensor, layout.shape(), layout.strides(), new LongOptional(offset));
    }
}
