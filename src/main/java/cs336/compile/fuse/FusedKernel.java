package cs336.compile.fuse;

import cs336.compile.fuse.KernelEmitter.EmittedKernel;
import cs336.compile.program.Argument;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.program.TensorOperator;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.TileSearch;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;

/** An operator that computes a group of pointwise operations and reductions in one kernel. */
final class FusedKernel implements TensorOperator {
    static final String FILE = "fused.cu";
    static final String KERNEL = "fused";
    static final String FINISH = "finish";

    private static final int MOST_SHARED_BYTES = 160 * 1024; // of a block; sm_80 has 163 KiB in all
    private static final int STATIC_SHARED_BYTES = 3 * 1024; // upper bound of what reductions of rows use
    private static final Map<ModuleKey, KernelModule> MODULES = new ConcurrentHashMap<>();
    private static final Map<ModuleKey, EmittedKernel> FASTEST = new ConcurrentHashMap<>(); // by the unsearched kernel

    private record ModuleKey(String source, Device device) {}

    private final FusionGroup group;
    private final List<ProgramValue> inputs;
    private final List<ProgramValue> outputs;
    private final Device device;
    private Interpreter members; // null until the first run without a GPU
    private EmittedKernel emitted;
    private boolean isSearched;

    private FusedKernel(FusionGroup group, List<ProgramValue> outputs, Device device) {
        this.group = group;
        this.device = device;
        this.outputs = outputs;
        inputs = group.inputs();
    }

    /** Returns the operation that computes these values of a group. */
    static Operation of(FusionGroup group, List<ProgramValue> outputs, Device device) {
        var kernel = new FusedKernel(group, outputs, device);
        List<View> inputs = kernel.inputs.stream().map(View::new).toList();
        return Operation.of(kernel, inputs, outputs.toArray(ProgramValue[]::new));
    }

    FusionGroup group() {
        return group;
    }

    List<ProgramValue> inputs() {
        return inputs;
    }

    List<ProgramValue> outputs() {
        return outputs;
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device ofProgram) {
        Tensor[] in = operation.reads().stream().map(read).toArray(Tensor[]::new);
        return Arrays.asList(device.isCuda() ? launch(in) : runMembers(in));
    }

    /** Returns the outputs, computed by one tensor operation per member. */
    Tensor[] runMembers(Tensor... in) {
        if (members == null) {
            members = new Interpreter(program());
        }
        return members.run(in);
    }

    private Program program() {
        List<View> results = outputs.stream().map(View::new).toList();
        List<Operation> operations = group.operations();
        Stream<ProgramValue> all =
                Stream.concat(inputs.stream(), operations.stream().map(Operation::output));
        int lastId = all.mapToInt(ProgramValue::id).max().orElse(0);
        return new Program(inputs, Map.of(), operations, results, lastId + 1);
    }

    private Tensor[] launch(Tensor[] in) {
        if (!isSearched && TileSearch.isEnabled()) {
            isSearched = true;
            var key = new ModuleKey(emitted().source(), device);
            emitted = FASTEST.computeIfAbsent(key, k -> fastest(in));
        }
        Tensor[] out = emptyOutputs();
        launch(emitted(), in, out);
        return out;
    }

    /** Enqueues a form of this kernel, with tensors of the layouts of {@link #inputs} and {@link #outputs}. */
    void launch(EmittedKernel kernel, Tensor[] in, Tensor[] out) {
        KernelModule module = MODULES.computeIfAbsent(
                new ModuleKey(kernel.source(), device),
                key -> KernelModule.load(KernelSource.of(FILE, key.source()), Map.of(), device));
        List<Object> arguments = new ArrayList<>();
        for (int i = 0; i < in.length; i++) {
            arguments.add(aligned(inputs.get(i), in[i]));
        }
        for (DType dtype : kernel.partials()) {
            arguments.add(
                    Layout.contiguous(dtype, kernel.parts(), group.columns()).empty(device));
        }
        arguments.addAll(Arrays.asList(out));
        Object[] all = arguments.toArray();
        var grid = new GridDim(Math.toIntExact(kernel.gridX()), kernel.gridY());
        module.kernel(KERNEL).launch(grid, new BlockDim(kernel.blockThreads()), kernel.sharedBytes(), all);
        if (!kernel.partials().isEmpty()) {
            long tiles = IntegerMath.ceilDiv(group.columns(), KernelTile.COLUMN_THREADS);
            module.kernel(FINISH)
                    .launch(new GridDim(Math.toIntExact(tiles)), new BlockDim(KernelTile.MAX_BLOCK), 0, all);
        }
    }

    private EmittedKernel fastest(Tensor[] in) {
        try (var scope = MemoryScope.open()) {
            Tensor[] out = emptyOutputs();
            return TileSearch.fastest(candidates(), device, kernel -> {
                try (var ofLaunch = MemoryScope.open()) {
                    launch(kernel, in, out);
                }
            });
        }
    }

    private Tensor[] emptyOutputs() {
        return outputs.stream().map(value -> value.layout().empty(device)).toArray(Tensor[]::new);
    }

    /**
     * Returns the tensor of an input, or if its address is not aligned to the accesses of a kernel, a vector that
     * starts with its first element at an aligned address. The vector is a part of a copy of all memory that the kernel
     * reads through views of the input, before and after this element. It also replaces a tensor without elements,
     * which has no address although the kernel may read other parts of its storage.
     */
    Tensor aligned(ProgramValue input, Tensor tensor) {
        boolean isAligned = tensor.numel() > 0 && tensor.data_ptr().address() % KernelEmitter.ACCESS_BYTES == 0;
        if (isAligned) {
            return tensor;
        }
        int bytes = input.dtype().bytes();
        long before = 0; // elements of the input; those of a view may have another size
        long after = 0;
        for (View view : group.loads()) {
            if (view.value() == input) {
                int viewBytes = view.dtype().bytes();
                long origin = input.layout().offset() * bytes;
                before = Math.max(
                        before, IntegerMath.ceilDiv(origin - view.layout().offset() * viewBytes, bytes));
                after = Math.max(after, IntegerMath.ceilDiv(view.layout().end() * viewBytes - origin, bytes));
            }
        }
        long start = IntegerMath.roundUp(before, KernelEmitter.ACCESS_BYTES / bytes);
        Tensor copy = Layout.contiguous(input.dtype(), start + after).empty(device);
        Layout read = Layout.contiguous(input.dtype(), before + after).withOffset(tensor.storage_offset() - before);
        copy.narrow(0, start - before, before + after).copy_(read.view(tensor));
        return copy.narrow(0, start, after);
    }

    /** Returns the shared memory that a block may use for rows and their sums. */
    private int mostSharedBytes() {
        int ofDevice = device.isCuda() ? Gpu.of(device).blockSharedBytes() - STATIC_SHARED_BYTES : MOST_SHARED_BYTES;
        return Math.min(MOST_SHARED_BYTES, ofDevice);
    }

    /**
     * Returns what the source depends on, with numbers in place of values. Kernels with equal lists have equal sources.
     */
    List<Object> structure() {
        Map<ProgramValue, Integer> numbers = new HashMap<>();
        List<Object> structure =
                new ArrayList<>(List.of(group.elements(), group.columns(), group.isPerColumn(), inputs.size()));
        for (ProgramValue input : inputs) {
            numbers.put(input, numbers.size());
            structure.add(input.layout());
        }
        for (Operation operation : group.operations()) {
            structure.add(operation.operator());
            for (Argument argument : operation.arguments()) {
                if (argument instanceof View view) {
                    structure.add(numbers.get(view.value()));
                    structure.add(view.layout());
                } else {
                    structure.add(argument);
                }
            }
            numbers.put(operation.output(), numbers.size());
            structure.add(operation.output().layout());
        }
        outputs.forEach(output -> structure.add(numbers.get(output)));
        return structure;
    }

    /** Takes the source from a kernel with an equal {@link #structure}. */
    void emitLike(FusedKernel other) {
        emitted = other.emitted();
    }

    /** Returns the kernel with its source. */
    EmittedKernel emitted() {
        if (emitted == null) {
            emitted = KernelEmitter.of(group, outputs, mostSharedBytes());
        }
        return emitted;
    }

    /** Returns this kernel with each tile that is plausible for it. */
    List<EmittedKernel> candidates() {
        return KernelEmitter.candidates(group, outputs, mostSharedBytes());
    }

    /** Returns the members as a program. */
    @Override
    public String toString() {
        return group.operations().stream()
                .map(operation -> "    " + operation + "\n")
                .collect(Collectors.joining("", "fused {\n", "} "));
    }
}
