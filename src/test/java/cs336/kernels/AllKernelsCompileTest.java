package cs336.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every kernel as it would be used, on a machine without a card. None may spill: the bound is 0 bytes. */
@Execution(ExecutionMode.CONCURRENT)
class AllKernelsCompileTest {
    private static final List<String> ARCHITECTURES = List.of("sm_80", "sm_90a");
    private static final int SPILL_BOUND = 0; // bytes a thread

    /** One kernel with all that makes it. */
    private record Kind(String file, String kernel, Map<String, Object> defines, int threads, int sharedBytes) {}

    private static Stream<Kind> rmsNorm() {
        List<Kind> kinds = new ArrayList<>();
        int[] widths = {1, 50, 768, 1000, 1024, 1600, 2048, 2560, 4096, 4097, 8192, 16384, 65536};
        for (int width : widths) {
            for (RowLayout layout : layouts(width)) {
                for (RmsNormTile tile : List.of(RmsNormTiles.forward(layout), RmsNormTiles.backward(layout))) {
                    kinds.add(new Kind(
                            "rmsnorm.cu",
                            tile.pass().kernel(),
                            tile.defines(layout),
                            tile.blockThreads(),
                            tile.sharedBytes(layout)));
                }
            }
        }
        return kinds.stream();
    }

    /** Types at full access width, and what an address that is not a multiple of 16 makes of the first. */
    private static List<RowLayout> layouts(int width) {
        List<RowLayout> layouts = new ArrayList<>();
        layouts.add(new RowLayout(width, DType.FLOAT32, DType.FLOAT32, vector(width, 4), null));
        layouts.add(new RowLayout(width, DType.BFLOAT16, DType.BFLOAT16, vector(width, 8), null));
        if (width % 1024 == 0) {
            layouts.add(new RowLayout(width, DType.BFLOAT16, DType.FLOAT32, vector(width, 8), null));
            layouts.add(new RowLayout(width, DType.FLOAT32, DType.FLOAT32, 1, null));
        }
        if (width == 1024) {
            layouts.add(new RowLayout(width, DType.FLOAT16, DType.FLOAT16, 8, null));
            layouts.add(new RowLayout(width, DType.FLOAT16, DType.FLOAT32, 2, null));
        }
        return layouts;
    }

    private static int vector(int width, int most) {
        int vector = most;
        while (width % vector != 0) vector /= 2;
        return vector;
    }

    private static Stream<Kind> others() {
        List<Kind> kinds = new ArrayList<>();
        for (DType type : Require.KERNEL_TYPES) {
            kinds.add(new Kind("column_sum.cu", "column_sum", Map.of("ELEMENT", RowLayout.cudaName(type)), 1024, 0));
            for (int vector = 1; vector <= 16 / type.bytes(); vector *= 2) {
                for (String pass : List.of("forward", "backward")) {
                    kinds.add(new Kind(
                            "weighted_sum.cu",
                            "weighted_sum_" + pass,
                            WeightedSum.defines(pass, type, vector),
                            128,
                            0));
                }
            }
        }
        return kinds.stream();
    }

    @ParameterizedTest
    @MethodSource({"rmsNorm", "others"})
    void kernelCompilesWithoutSpillsAndFitsAMultiprocessor(Kind kind) {
        for (String name : ARCHITECTURES) {
            Architecture architecture = Architecture.parse(name);
            Cubin cubin =
                    KernelCompiler.shared().compile(KernelSource.named(kind.file()), kind.defines(), architecture);
            KernelResources used = cubin.resources(kind.kernel());
            String what = kind + " for " + name + ": " + used;
            assertEquals(1, cubin.resources().size(), what);
            assertTrue(used.spillStores() <= SPILL_BOUND && used.spillLoads() <= SPILL_BOUND, what);
            int blocks = used.occupancy(architecture, kind.threads(), kind.sharedBytes())
                    .blocks();
            int asked = (int) kind.defines().getOrDefault("SM_BLOCKS", 1);
            assertTrue(blocks >= asked, what + ", " + blocks + " blocks fit");
        }
    }
}
