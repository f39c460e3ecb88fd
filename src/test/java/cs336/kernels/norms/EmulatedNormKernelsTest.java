package cs336.kernels.norms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.kernels.runtime.EmulatedGpu;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The kernels of RMSNorm and of the weighted sum, without a GPU. */
class EmulatedNormKernelsTest extends ScopedTest {
    private static final int ROWS = 37;
    private static final int PERSISTENT_BLOCKS = 3; // so that blocks compute several rows
    private static final double EPS = 1e-5;

    @TempDir
    Path folder;

    @BeforeAll
    static void needsACompiler() {
        assumeTrue(EmulatedGpu.isAvailable(), "g++ is not installed");
        Torch.seed(System.nanoTime());
    }

    /** A result of the program, by the order of the outputs. */
    private record Expected(String what, Tensor values, DType dtype) {}

    private final EmulatedGpu gpu = new EmulatedGpu("elements.cuh", "row_sum.cuh");
    private final List<Expected> expected = new ArrayList<>();

    private static Tensor random(DType dtype, long... shape) {
        return torch.randn(shape, Device.cpu().options(DType.FLOAT32)).to(dtype.scalarType());
    }

    private static Tensor wide(Tensor tensor) {
        return tensor.to(DType.FLOAT64.scalarType());
    }

    private static byte[] bytes(Tensor tensor) {
        return EmulatedGpu.read(tensor, tensor.nbytes());
    }

    private static String macros(Map<String, Object> defines) {
        var text = new StringBuilder();
        for (String name : List.of("FORWARD", "BACKWARD", "FORWARD_WIDE", "BACKWARD_WIDE")) {
            text.append("#undef " + name + "\n");
        }
        defines.forEach((name, value) -> text.append("#undef " + name + "\n#define " + name + " " + value + "\n"));
        return text.toString();
    }

    private void source(String namespace, String file, Map<String, Object> defines) {
        gpu.source(namespace, macros(defines) + KernelSource.named(file).text());
    }

    private String output(String what, Tensor values, DType dtype) {
        String name = gpu.tensor(RowLayout.cudaName(dtype), values.numel() * dtype.bytes());
        expected.add(new Expected(what, values, dtype));
        return name;
    }

    private void rmsNorm(int number, RmsNormTile tile, RowLayout layout) {
        DType dtype = layout.type();
        String name = "norm" + number;
        source(name, "rmsnorm.cu", tile.defines(layout));
        Tensor x = random(dtype, ROWS, layout.width());
        Tensor weight = random(dtype, layout.width());
        Tensor dy = random(dtype, ROWS, layout.width());
        Tensor r = wide(x).square()
                .mean(new long[] {-1}, true, new org.bytedeco.pytorch.ScalarTypeOptional())
                .add(new Scalar(EPS))
                .rsqrt();
        Tensor normalized = wide(x).mul(r);
        String type = RowLayout.cudaName(dtype);
        gpu.newKernel();
        String xs = gpu.input(type, bytes(x));
        String w = gpu.input(type, bytes(weight));
        int blocks = (ROWS + tile.blockRows() - 1) / tile.blockRows();
        blocks = tile.persistent() ? Math.min(blocks, PERSISTENT_BLOCKS) : blocks;
        int shared = tile.sharedBytes(layout);
        String kernel = name + "::" + tile.pass().kernel();
        if (tile.pass().isForward()) {
            String y = output(tile + ", y", normalized.mul(wide(weight)), dtype);
            gpu.launch(kernel, blocks, 1, tile.blockThreads(), shared, List.of(xs, w, y, ROWS, (float) EPS));
            gpu.output(y, Math.toIntExact(x.nbytes()));
            return;
        }
        Tensor g = wide(dy).mul(wide(weight));
        Tensor mean = g.mul(normalized).mean(new long[] {-1}, true, new org.bytedeco.pytorch.ScalarTypeOptional());
        String dys = gpu.input(type, bytes(dy));
        String dx = output(tile + ", dx", g.sub(normalized.mul(mean)).mul(r), dtype);
        String dw = output(tile + ", dw", wide(dy).mul(normalized).sum(0), DType.FLOAT32);
        String partial = tile.pass().isWide()
                ? gpu.input("float", new byte[blocks * layout.width() * Float.BYTES]) // the kernel adds to zeros
                : gpu.tensor("float", (long) blocks * layout.width() * Float.BYTES);
        gpu.launch(kernel, blocks, 1, tile.blockThreads(), shared, List.of(xs, w, dys, dx, partial, ROWS, (float) EPS));
        columnSum(partial, dw, blocks, layout.width());
        gpu.output(dx, Math.toIntExact(x.nbytes()));
        gpu.output(dw, layout.width() * Float.BYTES);
    }

    private void columnSum(String partial, String sum, int parts, int columns) {
        gpu.launch("column_sum::column_sum", (columns + 31) / 32, 1, 1024, 0, List.of(partial, sum, parts, columns));
    }

    private void assertResults() throws Exception {
        List<byte[]> results = gpu.run(folder);
        assertEquals(expected.size(), results.size());
        for (int i = 0; i < results.size(); i++) {
            Expected e = expected.get(i);
            Tensor got = torch.empty_strided(
                    new long[] {e.values.numel()}, new long[] {1}, Device.cpu().options(e.dtype));
            EmulatedGpu.write(got, results.get(i));
            Tensor values = e.values.reshape(-1);
            double error =
                    wide(got).sub(values).norm().item_double() / values.norm().item_double();
            double bound = switch (e.dtype) {
                case FLOAT32 -> 1e-6;
                case FLOAT16 -> 5e-4;
                default -> 4e-3; // bf16
            };
            assertTrue(error <= bound, e.what + ": " + error);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16", "FLOAT16"})
    void bothPassesOfRmsNormAreCorrect(DType dtype) throws Exception {
        source("column_sum", "column_sum.cu", Map.of("ELEMENT", "float"));
        int number = 0;
        // 1,000: the last threads of a row have fewer elements; 17,000: a row does not fit into registers
        for (int width : new int[] {96, 1000, 17_000}) {
            var layout = new RowLayout(width, dtype, dtype, 16 / dtype.bytes(), Device.cpu());
            rmsNorm(number++, RmsNormTile.forward(layout), layout);
            rmsNorm(number++, RmsNormTile.streaming(layout), layout);
            RmsNormTile backward = RmsNormTile.backward(layout);
            rmsNorm(number++, backward, layout);
            if (!backward.pass().isWide()) {
                rmsNorm(number++, backward.withStages(3), layout);
            }
        }
        assertResults();
    }

    @Test
    void bothPassesOfTheWeightedSumAreCorrect() throws Exception {
        source("column_sum", "column_sum.cu", Map.of("ELEMENT", "float"));
        int number = 0;
        for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)) {
            for (int width : new int[] {8, 1000}) {
                weightedSum("sum" + number++, dtype, width);
            }
        }
        assertResults();
    }

    private void weightedSum(String name, DType dtype, int width) {
        int vector = 16 / dtype.bytes();
        String type = RowLayout.cudaName(dtype);
        Map<String, Object> forward = WeightedSum.defines("forward", dtype, vector);
        Map<String, Object> backward = WeightedSum.defines("backward", dtype, vector);
        source(name + "FORWARD", "weighted_sum.cu", forward);
        source(name + "BACKWARD", "weighted_sum.cu", backward);
        Tensor x = random(dtype, ROWS, width);
        Tensor weight = random(dtype, width);
        Tensor dy = random(dtype, ROWS);
        gpu.newKernel();
        String xs = gpu.input(type, bytes(x));
        String w = gpu.input(type, bytes(weight));
        String dys = gpu.input(type, bytes(dy));
        String what = "weighted sum, " + dtype + ", width " + width;
        String y = output(what + ", y", wide(x).matmul(wide(weight)), dtype);
        String dx = output(what + ", dx", wide(dy).outer(wide(weight)), dtype);
        String dw = output(what + ", dw", wide(dy).matmul(wide(x)), DType.FLOAT32);
        gpu.launch(
                name + "FORWARD::weighted_sum_forward",
                PERSISTENT_BLOCKS,
                1,
                (int) forward.get("THREADS"),
                0,
                List.of(xs, w, y, ROWS, width));
        String partial = gpu.tensor("float", (long) PERSISTENT_BLOCKS * width * Float.BYTES);
        int threads = (int) backward.get("THREADS");
        int columns = threads * vector;
        gpu.launch(
                name + "BACKWARD::weighted_sum_backward",
                (width + columns - 1) / columns,
                PERSISTENT_BLOCKS,
                threads,
                0,
                List.of(xs, w, dys, dx, partial, ROWS, width));
        columnSum(partial, dw, PERSISTENT_BLOCKS, width);
        gpu.output(y, ROWS * dtype.bytes());
        gpu.output(dx, Math.toIntExact(x.nbytes()));
        gpu.output(dw, width * Float.BYTES);
    }
}
