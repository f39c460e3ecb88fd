package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.Tensor;

/**
 * CUDA kernels that run on the CPU. Their sources are compiled as C++ with headers in which the threads of a block take
 * turns and accesses through {@code Elements} are checked. All kernels of a test are one program. Needs g++.
 */
public final class EmulatedGpu {
    private static final List<String> HEADERS = List.of("device.h", "elements.cuh");
    private static final List<String> KERNEL_HEADERS = List.of("fused.cuh", "random.cuh", "row_sum.cuh");

    private final StringBuilder declarations = new StringBuilder();
    private final StringBuilder body = new StringBuilder();
    private final List<byte[]> inputs = new ArrayList<>();
    private final List<Integer> outputs = new ArrayList<>();
    private int tensors;

    /** Creates a program with these headers of {@code kernels/}. */
    public EmulatedGpu(String... headers) {
        for (String header : headers) {
            declarations.append("#include \"" + header + "\"\n");
        }
    }

    /** Returns whether g++ is installed. */
    public static boolean isAvailable() {
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

    /** Returns this many bytes of a CPU tensor's memory, from its first element on. */
    public static byte[] read(Tensor tensor, long size) {
        byte[] bytes = new byte[Math.toIntExact(size)];
        new BytePointer(tensor.data_ptr()).capacity(bytes.length).get(bytes);
        return bytes;
    }

    /** Writes bytes into a CPU tensor's memory, from its first element on. */
    public static void write(Tensor tensor, byte... bytes) {
        new BytePointer(tensor.data_ptr()).capacity(bytes.length).put(bytes);
    }

    /** Adds a source in a namespace of its own. Its includes must be headers of this program. */
    public void source(String namespace, String cuda) {
        declarations.append("namespace " + namespace + " {\n"
                + adapted(cuda).replaceAll("(?m)^#include.*$", "").replace("#define VEC", "#undef VEC\n#define VEC")
                + "}\n");
    }

    private static String adapted(String cuda) {
        return cuda.replace("extern \"C\" ", "")
                .replace(
                        "extern __shared__ __align__(16) unsigned char staged[];",
                        "unsigned char *staged = dynamicShared;")
                .replaceAll("(?m)^ *asm volatile\\(\"cp\\.async.*$", "") // copies are complete at once
                .replaceAll(
                        "asm volatile\\(\"bar\\.sync %0, %1;\" ::\"r\"\\((.*)\\), \"n\"\\((.*)\\) : \"memory\"\\);",
                        "syncThreads($1, $2);");
    }

    /** Forgets the tensors so far, so that the following kernels must not access them. */
    public void newKernel() {
        body.append("    tensors.clear();\n");
    }

    /** Adds a tensor that the kernels read, and returns its name. */
    public String input(String type, byte[] bytes) {
        inputs.add(bytes);
        return tensor(type, bytes.length, "in");
    }

    /** Adds a tensor full of NaN, and returns its name. */
    public String tensor(String type, long bytes) {
        return tensor(type, bytes, "nullptr");
    }

    private String tensor(String type, long bytes, String from) {
        String name = "t" + tensors++;
        declarations.append(type + " *" + name + ";\n");
        body.append("    " + name + " = (" + type + " *)tensor(" + bytes + ", " + from + ");\n");
        return name;
    }

    /** Adds the launch of a kernel. */
    public void launch(String kernel, long blocksX, int blocksY, int threads, int sharedBytes, List<?> arguments) {
        String list = arguments.stream().map(Object::toString).collect(Collectors.joining(", "));
        body.append("    dynamicSharedBytes = " + sharedBytes + ";\n    launch(" + blocksX + ", " + blocksY + ", "
                + threads + ", [] { " + kernel + "(" + list + "); });\n");
    }

    /** Adds a tensor to the results. */
    public void output(String name, int bytes) {
        outputs.add(bytes);
        body.append("    fwrite(" + name + ", 1, " + bytes + ", out);\n");
    }

    /** Compiles and runs the program in a folder, and returns the bytes of each result. */
    public List<byte[]> run(Path folder) throws IOException, InterruptedException {
        for (String header : HEADERS) {
            try (InputStream in = EmulatedGpu.class.getResourceAsStream("/cs336/kernels/emulated/" + header)) {
                Files.copy(in, folder.resolve(header));
            }
        }
        for (String header : KERNEL_HEADERS) {
            Files.writeString(
                    folder.resolve(header), adapted(KernelSource.named(header).text()));
        }
        Files.writeString(
                folder.resolve("kernels.cpp"),
                declarations
                        + "int main() {\n    FILE *in = fopen(\"inputs\", \"rb\"), *out = fopen(\"outputs\", \"wb\");\n"
                        + body
                        + "    return fclose(out);\n}\n");
        try (var out = Files.newOutputStream(folder.resolve("inputs"))) {
            for (byte[] input : inputs) {
                out.write(input);
            }
        }
        execute(folder, "g++", "-std=c++20", "-O0", "-w", "-o", "kernels", "kernels.cpp");
        execute(folder, "./kernels");
        List<byte[]> results = new ArrayList<>();
        try (var in = Files.newInputStream(folder.resolve("outputs"))) {
            for (int bytes : outputs) {
                results.add(in.readNBytes(bytes));
            }
        }
        return results;
    }

    private static void execute(Path folder, String... command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command)
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), () -> String.join(" ", command) + "\n" + output);
    }
}
