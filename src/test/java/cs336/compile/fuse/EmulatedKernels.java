package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.compile.fuse.KernelEmitter.EmittedKernel;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Operator;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.kernels.runtime.KernelSource;
import cs336.torch.DType;
import cs336.torch.Device;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Generated kernels that run on the CPU: their CUDA sources are compiled as C++ with headers that emulate a GPU. All
 * kernels are one C++ program. Needs g++.
 */
final class EmulatedKernels {
    /** A difference between the results of a kernel and of the operations that it fuses. */
    record Comparison(String kernel, Tensor expected, Tensor got) {}

    /** A form of a kernel, the bytes of its inputs, and those that the operations compute from them. */
    private record Run(FusedKernel kernel, EmittedKernel form, List<byte[]> inputs, List<byte[]> expected) {}

    private final List<Run> runs = new ArrayList<>();

    static boolean isAvailable() {
        try {
            return new ProcessBuilder("g++", "--version")
                            .redirectErrorStream(true)
                            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                            .start()
                            .waitFor()
                    == 0;
        } catch (IOException e) {
            return false;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Adds a form of a kernel with these inputs. */
    void add(FusedKernel kernel, EmittedKernel form, Tensor... in) {
        add(kernel, form, List.of(in), List.of(kernel.runMembers(in)));
    }

    private void add(FusedKernel kernel, EmittedKernel form, List<Tensor> in, List<Tensor> expected) {
        List<byte[]> results = new ArrayList<>();
        for (int i = 0; i < expected.size(); i++) {
            try (Tensor stored = empty(kernel.outputs().get(i).layout())) {
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
                                operation.keys(),
                                operation.source())
                        : operation)
                .toList();
        new Interpreter(fused.withOperations(operations)).run(in);
    }

    /** An operator that computes what a kernel does, and adds it to the runs. */
    private final class Recording implements Operator {
        private final FusedKernel kernel;

        Recording(FusedKernel kernel) {
            this.kernel = kernel;
        }

        @Override
        public String name() {
            return kernel.name();
        }

        @Override
        public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
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
        for (String header : List.of("device.h", "elements.cuh")) {
            try (InputStream in = EmulatedKernels.class.getResourceAsStream("/cs336/compile/emulated/" + header)) {
                Files.copy(in, folder.resolve(header));
            }
        }
        String shared = KernelSource.named("fused.cuh").text();
        String barrier = "asm volatile(\"bar.sync %0, %1;\" ::\"r\"(barrier), \"n\"(Threads) : \"memory\");";
        assertEquals(2, shared.split(Pattern.quote(barrier), -1).length, "barriers in fused.cuh");
        Files.writeString(folder.resolve("fused.cuh"), shared.replace(barrier, "syncThreads(barrier, Threads);"));
        Files.writeString(folder.resolve("kernels.cpp"), program());
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(folder.resolve("inputs")))) {
            for (Run run : runs) {
                for (byte[] input : run.inputs) {
                    out.write(input);
                }
            }
        }
        execute(folder, "g++", "-std=c++20", "-O0", "-w", "-o", "kernels", "kernels.cpp");
        execute(folder, "./kernels");
        try (var in = new DataInputStream(new BufferedInputStream(Files.newInputStream(folder.resolve("outputs"))))) {
            for (Run run : runs) {
                for (int i = 0; i < run.expected.size(); i++) {
                    Layout layout = run.kernel.outputs().get(i).layout();
                    byte[] bytes = in.readNBytes(run.expected.get(i).length);
                    String name = run.kernel + "\noutput " + i + " of\n" + run.form.source();
                    try (Tensor expected = tensor(layout, run.expected.get(i));
                            Tensor got = tensor(layout, bytes)) {
                        results.accept(new Comparison(name, expected, got));
                    }
                }
            }
        }
    }

    private static Tensor empty(Layout layout) {
        return torch.empty_strided(
                layout.shape(), layout.strides(), Device.cpu().options(layout.dtype()));
    }

    private static Tensor tensor(Layout layout, byte[] bytes) {
        Tensor tensor = empty(layout);
        new BytePointer(tensor.data_ptr()).capacity(bytes.length).put(bytes);
        return tensor;
    }

    private static void execute(Path folder, String... command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command)
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), () -> String.join(" ", command) + "\n" + output);
    }

    /** Returns the bytes from a tensor's first to its last element. */
    private static byte[] bytes(Tensor tensor) {
        Layout layout = Layout.of(tensor).withOffset(0);
        byte[] bytes = new byte
                [Math.toIntExact(
                        layout.elements() == 0
                                ? 0
                                : layout.end() * layout.dtype().bytes())];
        new BytePointer(tensor.data_ptr()).capacity(bytes.length).get(bytes);
        return bytes;
    }

    // ---- the C++ program

    private String program() {
        var text = new StringBuilder("#include \"fused.cuh\"\n");
        for (int i = 0; i < runs.size(); i++) {
            text.append(namespace(i, runs.get(i)));
        }
        text.append("int main() {\n    FILE *in = fopen(\"inputs\", \"rb\"), *out = fopen(\"outputs\", \"wb\");\n");
        for (int i = 0; i < runs.size(); i++) {
            text.append("    kernel" + i + "::run(in, out);\n");
        }
        return text.append("    return fclose(out);\n}\n").toString();
    }

    private static String namespace(int number, Run run) {
        EmittedKernel form = run.form;
        String source = form.source()
                .replace("#define VEC", "#undef VEC\n#define VEC")
                .replace("#include \"fused.cuh\"", "")
                .replace("extern \"C\" ", "")
                .replace(
                        "extern __shared__ __align__(16) unsigned char staged[];",
                        "unsigned char *staged = dynamicShared;")
                .replaceAll("(?m)^ *asm volatile\\(\"cp.async.*$", ""); // copies are complete at once
        var globals = new StringBuilder();
        var begin = new StringBuilder();
        var end = new StringBuilder();
        List<String> arguments = new ArrayList<>();
        for (int i = 0; i < run.inputs.size(); i++) {
            DType dtype = run.kernel.inputs().get(i).layout().dtype();
            arguments.add(tensor("in" + i, dtype, run.inputs.get(i).length, "in", globals, begin));
        }
        List<String> sums = new ArrayList<>();
        for (int i = 0; i < form.partials().size(); i++) {
            DType dtype = form.partials().get(i);
            long bytes = form.parts() * run.kernel.group().columns() * dtype.bytes();
            sums.add(tensor("partial" + i, dtype, bytes, "nullptr", globals, begin));
        }
        arguments.addAll(sums);
        for (int i = 0; i < run.expected.size(); i++) {
            ProgramValue output = run.kernel.outputs().get(i);
            long bytes = output.layout().bytes();
            String name = tensor("out" + i, output.layout().dtype(), bytes, "nullptr", globals, begin);
            (form.sums().contains(i) ? sums : arguments).add(name);
            end.append("    fwrite(" + name + ", 1, " + bytes + ", out);\n");
        }
        begin.append("    dynamicSharedBytes = " + form.sharedBytes() + ";\n");
        begin.append(launch(form.gridX(), form.gridY(), form.blockThreads(), FusedKernel.KERNEL, arguments));
        if (!form.partials().isEmpty()) {
            long tiles = (run.kernel.group().columns() + KernelTile.COLUMN_THREADS - 1) / KernelTile.COLUMN_THREADS;
            begin.append(launch(tiles, 1, KernelTile.MAX_BLOCK, FusedKernel.FINISH, sums));
        }
        return "namespace kernel" + number + " {\n" + source + globals
                + "void run(FILE *in, FILE *out) {\n    tensors.clear();\n" + begin + end + "}\n}\n";
    }

    private static String tensor(
            String name, DType dtype, long bytes, String from, StringBuilder globals, StringBuilder begin) {
        String pointer = "tensor_" + name;
        globals.append(KernelEmitter.type(dtype) + " *" + pointer + ";\n");
        begin.append(
                "    " + pointer + " = (" + KernelEmitter.type(dtype) + " *)tensor(" + bytes + ", " + from + ");\n");
        return pointer;
    }

    private static String launch(long gridX, int gridY, int threads, String kernel, List<String> arguments) {
        return "    launch(" + gridX + ", " + gridY + ", " + threads + ", [] { " + kernel + "("
                + String.join(", ", arguments) + "); });\n";
    }
}
