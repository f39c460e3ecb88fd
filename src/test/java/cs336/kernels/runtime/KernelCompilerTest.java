package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.runtime.KernelCompiler.CubinOrigin;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KernelCompilerTest {
    private static final GpuArchitecture AMPERE = GpuArchitecture.parse("sm_80");
    private static final GpuArchitecture HOPPER = GpuArchitecture.parse("sm_90a");
    private static final String SCALE = """
            // √ and · in a comment must not break the compilation
            extern "C" __global__ void scale(float *x, float factor, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) x[i] *= factor * STEP;
            }
            """;

    @TempDir
    Path folder;

    private static KernelSource scale() {
        return KernelSource.of("scale.cu", SCALE);
    }

    @Test
    void resourcesOfAKernelAreReadFromTheLog() {
        Cubin cubin = KernelCompiler.in(folder).compile(scale(), Map.of("STEP", 2), HOPPER);
        KernelResources used = cubin.resources("scale");
        assertTrue(used.registers() >= 4 && used.registers() <= 32, used.toString());
        assertEquals(0, used.spillStores());
        assertEquals(0, used.sharedBytes());
        assertEquals(List.of("scale"), List.copyOf(cubin.resources().keySet()));
        String message = assertThrows(IllegalArgumentException.class, () -> cubin.resources("skale"))
                .getMessage();
        assertTrue(message.contains("skale") && message.contains("[scale]"), message);
    }

    /** NVRTC rejects the kernel, but its log has no error. */
    @Test
    void tooMuchStaticSharedMemoryIsAnErrorWithItsSize() {
        String large = """
                extern "C" __global__ void large(float *x) {
                    __shared__ float all[SIZE];
                    all[threadIdx.x] = x[threadIdx.x];
                    __syncthreads();
                    x[threadIdx.x] = all[255 - threadIdx.x];
                }
                """;
        KernelSource source = KernelSource.of("large.cu", large);
        KernelCompiler compiler = KernelCompiler.in(folder);
        assertEquals(
                49_152,
                compiler.compile(source, Map.of("SIZE", 12_288), AMPERE)
                        .resources("large")
                        .sharedBytes());
        String message = assertThrows(
                        KernelCompileException.class, () -> compiler.compile(source, Map.of("SIZE", 12_289), AMPERE))
                .getMessage();
        assertTrue(
                message.contains("kernel 'large' declares 49156 bytes of static shared memory, more than the"),
                message);
    }

    @Test
    void spillsAndSharedMemoryAreReportedPerKernel() {
        String two = """
                extern "C" __global__ void __launch_bounds__(1024, 2) crowded(float *x) {
                    float v[64];
                #pragma unroll
                    for (int i = 0; i < 64; i++) v[i] = x[i * 1024 + threadIdx.x];
                    __syncthreads();
                #pragma unroll
                    for (int i = 0; i < 64; i++) x[(63 - i) * 1024 + threadIdx.x] = v[i] * v[63 - i];
                }
                extern "C" __global__ void shared(float *x) {
                    __shared__ float all[256];
                    all[threadIdx.x] = x[threadIdx.x];
                    __syncthreads();
                    x[threadIdx.x] = all[255 - threadIdx.x];
                }
                """;
        Cubin cubin = KernelCompiler.in(folder).compile(KernelSource.of("two.cu", two), Map.of(), AMPERE);
        assertTrue(cubin.resources("crowded").spillStores() > 0, cubin.log());
        assertTrue(cubin.resources("crowded").spillLoads() > 0, cubin.log());
        assertEquals(32, cubin.resources("crowded").registers());
        assertEquals(0, cubin.resources("shared").spillStores());
        assertEquals(1024, cubin.resources("shared").sharedBytes());
    }

    @Test
    void errorsShowFileLineAndText() {
        String message = assertThrows(
                        KernelCompileException.class,
                        () -> KernelCompiler.in(folder)
                                .compile(
                                        KernelSource.of("scale.cu", SCALE.replace("x[i] *=", "z[i] *=")),
                                        Map.of("STEP", 2),
                                        HOPPER))
                .getMessage();
        assertTrue(message.contains("scale.cu(4): error"), message);
        assertTrue(message.contains("if (i < n) z[i] *= factor"), message);
    }

    @Test
    void errorsInIncludedFilesShowThatFile() throws IOException {
        Files.writeString(folder.resolve("part.cuh"), "// one\n\nconstexpr int two = ;\n");
        Files.writeString(folder.resolve("whole.cu"), "#include \"part.cuh\"\nextern \"C\" __global__ void k() {}\n");
        KernelSource source = KernelSource.read(folder.resolve("whole.cu"));
        String message = assertThrows(
                        KernelCompileException.class,
                        () -> KernelCompiler.in(folder).compile(source, Map.of(), HOPPER))
                .getMessage();
        assertTrue(message.contains("part.cuh(3): error"), message);
    }

    @Test
    void anUnknownArchitectureIsNamed() {
        String message = assertThrows(
                        IllegalStateException.class,
                        () -> KernelCompiler.in(folder)
                                .compile(scale(), Map.of("STEP", 1), new GpuArchitecture(1, 3, false)))
                .getMessage();
        assertTrue(message.contains("sm_13"), message);
    }

    @Test
    void aCompiledKernelIsCachedInMemoryAndOnDisk() {
        KernelCompiler first = KernelCompiler.in(folder);
        assertFalse(first.isCached(scale(), Map.of("STEP", 1), HOPPER));
        var compiled = first.find(scale(), Map.of("STEP", 1), HOPPER);
        assertTrue(first.isCached(scale(), Map.of("STEP", 1), HOPPER));
        assertFalse(first.isCached(scale(), Map.of("STEP", 1), AMPERE));
        assertTrue(KernelCompiler.in(folder).isCached(scale(), Map.of("STEP", 1), HOPPER));
        assertEquals(CubinOrigin.COMPILER, compiled.origin());
        assertEquals(
                CubinOrigin.MEMORY,
                first.find(scale(), Map.of("STEP", 1), HOPPER).origin());

        var stored = KernelCompiler.in(folder).find(scale(), Map.of("STEP", 1), HOPPER);
        assertEquals(CubinOrigin.DISK, stored.origin());
        assertArrayEquals(compiled.cubin().image(), stored.cubin().image());
        assertEquals(compiled.cubin().log(), stored.cubin().log());
    }

    @Test
    void macrosArchitectureTextAndIncludesArePartOfTheCacheKey() throws IOException {
        KernelCompiler compiler = KernelCompiler.in(folder.resolve("cache"));
        compiler.find(scale(), Map.of("STEP", 1), HOPPER);
        assertEquals(
                CubinOrigin.COMPILER,
                compiler.find(scale(), Map.of("STEP", 2), HOPPER).origin());
        assertEquals(
                CubinOrigin.COMPILER,
                compiler.find(scale(), Map.of("STEP", 1), AMPERE).origin());
        assertEquals(
                CubinOrigin.COMPILER,
                compiler.find(KernelSource.of("scale.cu", SCALE + "\n"), Map.of("STEP", 1), HOPPER)
                        .origin());

        Path whole = Files.writeString(
                folder.resolve("whole.cu"),
                "#include \"part.cuh\"\nextern \"C\" __global__ void k(int *x) { *x = two; }\n");
        Files.writeString(folder.resolve("part.cuh"), "constexpr int two = 2;\n");
        Cubin two = compiler.compile(KernelSource.read(whole), Map.of(), HOPPER);
        Files.writeString(folder.resolve("part.cuh"), "constexpr int two = 3;\n");
        Cubin three = compiler.compile(KernelSource.read(whole), Map.of(), HOPPER);
        assertNotEquals(new String(two.image()), new String(three.image()));
    }

    @Test
    void aDamagedCacheFileIsCompiledAgain() throws IOException {
        byte[] whole = KernelCompiler.in(folder)
                .compile(scale(), Map.of("STEP", 1), HOPPER)
                .image();
        try (Stream<Path> files = Files.list(folder)) {
            Path file = files.filter(f -> f.toString().endsWith(".cubin"))
                    .findFirst()
                    .orElseThrow();
            byte[] bytes = Files.readAllBytes(file);
            Files.write(file, java.util.Arrays.copyOf(bytes, bytes.length / 2));
        }
        var again = KernelCompiler.in(folder).find(scale(), Map.of("STEP", 1), HOPPER);
        assertEquals(CubinOrigin.COMPILER, again.origin());
        assertArrayEquals(whole, again.cubin().image());
        assertEquals(
                CubinOrigin.DISK,
                KernelCompiler.in(folder)
                        .find(scale(), Map.of("STEP", 1), HOPPER)
                        .origin());
    }

    @Test
    void aFolderThatCannotBeWrittenIsIgnored() throws IOException {
        Path file = Files.writeString(folder.resolve("in-the-way"), "");
        var result = KernelCompiler.in(file.resolve("cache")).find(scale(), Map.of("STEP", 1), HOPPER);
        assertEquals(CubinOrigin.COMPILER, result.origin());
    }
}
