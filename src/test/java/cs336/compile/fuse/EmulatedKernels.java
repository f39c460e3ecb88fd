package cs336.compile.fuse;

import cs336.compile.fuse.KernelEmitter.EmittedKernel;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.program.TensorOperator;
import cs336.kernels.runtime.EmulatedGpu;
import cs336.torch.DType;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** Generated kernels on an {@link EmulatedGpu}, next to what the operations compute that they fuse. */
final class EmulatedKernels {
    /** A result of a kernel and that of the operations that it fuses. */
    record Comparison(String kernel, Tensor expected, Tensor got) {}

    /** A form of a kernel, the bytes of its inputs, and those that the operations compute from them. */
    private record Run(FusedKernel kernel, EmittedKernel form, List<byte[]> inputs, List<byte[]> expected) {}

    private final List<Run> runs = new ArrayList<>();

    /** Adds a form of a kernel with these inputs. */
    void add(FusedKernel kernel, EmittedKernel form, Tensor... in) {
        add(kernel, form, List.of(in), List.of(kernel.runMembers(in)));
    }

    private void add(FusedKernel kernel, EmittedKernel form, List<Tensor> in, List<Tensor> expected) {
        List<byte[]> results = new ArrayList<>();
        for (int i = 0; i < expected.size(); i++) {
            try (Tensor stored = kernel.outputs().get(i).layout().empty(Device.cpu())) {
                results.add(bytes(stored.copy_(expected.get(i))));
            }
        }
        runs.add(new Run(kernel, form, in.stream().map(EmulatedKernels::bytes).toList(), results));
    }

    /** Runs a fused program on the CPU and adds each of its kernels with the inputs that it gets. */
    void add(Program fused, Tensor... in) {
        List<Operation> operations = fused.operations().stream()
                .map(operation -> operation.operator() instanceof FusedKernel kernel
                        ? new Operation(
                                new Recording(kernel),
                                operation.arguments(),
                                operation.outputs(),
                                operation.overwrites(),
                                operation.keys())
                        : operation)
                .toList();
        new Interpreter(fused.withOperations(operations)).run(in);
    }

    /** An operator that computes what a kernel does, and adds it to the runs. */
    private final class Recording implements TensorOperator {
        private final FusedKernel kernel;

        Recording(FusedKernel kernel) {
            this.kernel = kernel;
        }

        @Override
        public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device) {
            List<Tensor> in = operation.reads().stream().map(read).toList();
            List<Tensor> out = List.of(kernel.runMembers(in.toArray(new Tensor[0])));
            add(kernel, kernel.emitted(), in, out);
            return out;
        }
    }

    int size() {
        return runs.size();
    }

    /** Compiles and runs all kernels in a folder, and passes each result with its expected value to the consumer. */
    void compare(Path folder, Consumer<Comparison> results) throws IOException, InterruptedException {
        var gpu = new EmulatedGpu("fused.cuh", "random.cuh");
        Map<String, String> namespaces = new HashMap<>(); // by source, because equal layers have equal kernels
        for (Run run : runs) {
            String namespace = namespaces.computeIfAbsent(run.form.source(), source -> {
                String name = "kernel" + namespaces.size();
                gpu.source(name, source);
                return name;
            });
            add(gpu, namespace, run);
        }
        Iterator<byte[]> got = gpu.run(folder).iterator();
        for (Run run : runs) {
            for (int i = 0; i < run.expected.size(); i++) {
                Layout layout = run.kernel.outputs().get(i).layout();
                String name = run.kernel + "\noutput " + i + " of\n" + run.form.source();
                try (Tensor expected = tensor(layout, run.expected.get(i));
                        Tensor result = tensor(layout, got.next())) {
                    results.accept(new Comparison(name, expected, result));
                }
            }
        }
    }

    private static void add(EmulatedGpu gpu, String namespace, Run run) {
        EmittedKernel form = run.form;
        gpu.newKernel();
        List<String> arguments = new ArrayList<>();
        for (int i = 0; i < run.inputs.size(); i++) {
            arguments.add(gpu.input(type(run.kernel.inputs().get(i)), run.inputs.get(i)));
        }
        for (DType dtype : form.partials()) {
            long bytes = form.parts() * run.kernel.group().columns() * dtype.bytes();
            arguments.add(gpu.tensor(CudaType.of(dtype), bytes));
        }
        List<String> outputs = new ArrayList<>();
        for (int i = 0; i < run.expected.size(); i++) {
            outputs.add(gpu.tensor(type(run.kernel.outputs().get(i)), run.expected.get(i).length));
        }
        arguments.addAll(outputs);
        gpu.launch(
                namespace + "::" + FusedKernel.KERNEL,
                form.gridX(),
                form.gridY(),
                form.blockThreads(),
                form.sharedBytes(),
                arguments);
        if (!form.partials().isEmpty()) {
            long tiles = (run.kernel.group().columns() + KernelTile.COLUMN_THREADS - 1) / KernelTile.COLUMN_THREADS;
            gpu.launch(namespace + "::" + FusedKernel.FINISH, tiles, 1, KernelTile.MAX_BLOCK, 0, arguments);
        }
        for (int i = 0; i < outputs.size(); i++) {
            gpu.output(outputs.get(i), run.expected.get(i).length);
        }
    }

    private static String type(ProgramValue value) {
        return CudaType.of(value.layout().dtype());
    }

    private static Tensor tensor(Layout layout, byte[] bytes) {
        Tensor tensor = layout.empty(Device.cpu());
        EmulatedGpu.write(tensor, bytes);
        return tensor;
    }

    /** Returns the bytes from a tensor's first to its last element. */
    private static byte[] bytes(Tensor tensor) {
        Layout layout = Layout.of(tensor).withOffset(0);
        return EmulatedGpu.read(
                tensor,
                layout.elements() == 0 ? 0 : layout.end() * layout.dtype().bytes());
    }
}
