package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class PartitionTest extends ScopedTest {
    private static final Device CPU = Device.cpu();
    private static final long[] LAST = {-1};

    @BeforeEach
    void open() {
        Torch.seed(3);
    }

    /**
     * Returns the function of inputs and of the gradient of its first output: outputs, then gradients of the inputs.
     */
    private static TensorFunction withBackward(TensorFunction function, int inputs) {
        return in -> {
            Tensor[] leaves = new Tensor[inputs];
            for (int i = 0; i < inputs; i++) {
                leaves[i] = in[i].detach().set_requires_grad(true);
            }
            Tensor y = function.apply(leaves)[0];
            List<Tensor> all = new ArrayList<>(List.of(y.detach()));
            all.addAll(Arrays.asList(Backward.of(y).with(in[inputs]).gradients(leaves)));
            return all.toArray(new Tensor[0]);
        };
    }

    private static Optional<Partition> partition(TensorFunction function, boolean fuse, Tensor... inputs) {
        Tensor[] all = Arrays.copyOf(inputs, inputs.length + 1);
        all[inputs.length] = torch.ones_like(function.apply(inputs)[0]).contiguous();
        Program joint = Recorder.record(withBackward(function, inputs.length), all);
        Optional<Partition> parts = Partition.of(FusionPasses.prepare(joint, CPU), inputs.length, 1);
        return fuse ? parts.map(p -> p.fused(CPU)) : parts;
    }

    /** Runs both passes of a partition and compares them with autograd. */
    private static void assertAgrees(TensorFunction function, Partition parts, String what, Tensor... inputs) {
        Tensor dy = torch.randn_like(function.apply(inputs)[0]).contiguous();
        Tensor[] all = Arrays.copyOf(inputs, inputs.length + 1);
        all[inputs.length] = dy;
        Tensor[] expected = withBackward(function, inputs.length).apply(all);
        Tensor[] forward = new Interpreter(parts.forward()).run(inputs);
        Tensor[] saved = Arrays.copyOfRange(forward, 1, forward.length + 1);
        saved[saved.length - 1] = dy;
        Tensor[] gradients = new Interpreter(parts.backward()).run(saved);
        assertClose(expected[0], forward[0], what + ", output");
        assertEquals(expected.length - 1, gradients.length, what + ", number of gradients");
        for (int i = 0; i < gradients.length; i++) {
            if (expected[i + 1] != null) {
                assertClose(expected[i + 1], gradients[i], what + ", gradient " + i);
            } else {
                boolean isZero =
                        gradients[i] == null || gradients[i].count_nonzero().item_long() == 0;
                assertTrue(isZero, what + ", gradient " + i + " must be null or zero");
            }
        }
    }

    private static void assertClose(Tensor expected, Tensor got, String what) {
        assertArrayEquals(Tensors.shape(expected), Tensors.shape(got), what);
        assertEquals(DType.of(expected), DType.of(got), what);
        // The gradient of a function that is constant, such as the mean of a softmax, is a difference of equal numbers.
        double scale =
                expected.numel() == 0 ? 1 : Math.max(0.01, expected.abs().max().item_double());
        double error = expected.numel() == 0 ? 0 : got.sub(expected).abs().max().item_double() / scale;
        assertTrue(error < 5e-5, what + ": " + error);
    }

    /** Returns the layouts of what the forward pass saves besides the inputs of the function. */
    private static List<Layout> saved(Partition parts) {
        List<View> outputs = parts.forward().outputs();
        return outputs.subList(1, outputs.size()).stream()
                .map(View::value)
                .filter(value -> !parts.forward().inputs().contains(value))
                .map(value -> value.layout())
                .toList();
    }

    @Test
    void bothPassesOfRandomFunctionsAgreeWithAutograd() {
        int split = 0;
        for (int seed = 0; seed < 400; seed++) {
            try (var inner = MemoryScope.open()) {
                Torch.seed(seed);
                var function = new RandomFunction(seed);
                Tensor[] inputs = function.inputs(CPU);
                if (!function.apply(inputs[0].clone().set_requires_grad(true), inputs[1], inputs[2])[0]
                        .requires_grad()) {
                    continue;
                }
                for (boolean fuse : new boolean[] {false, true}) {
                    Optional<Partition> parts = partition(function, fuse, inputs);
                    if (parts.isPresent()) {
                        split++;
                        assertAgrees(function, parts.get(), "seed " + seed + (fuse ? ", fused" : ""), inputs);
                    }
                }
            }
        }
        assertTrue(split > 250, split + " partitions");
    }

    @Test
    void anRmsNormSavesOneNumberPerRow() {
        TensorFunction norm = in -> {
            Tensor scale = in[0].square()
                    .mean(LAST, true, new ScalarTypeOptional())
                    .add(new Scalar(1e-5))
                    .rsqrt();
            return new Tensor[] {in[0].mul(scale).mul(in[1])};
        };
        Tensor[] inputs = {torch.randn(6, 32), torch.randn(32)};
        Partition parts = partition(norm, true, inputs).orElseThrow();
        assertEquals(List.of(Layout.contiguous(DType.FLOAT32, 6, 1)), saved(parts));
        assertAgrees(norm, parts, "norm", inputs);
        // One kernel computes both gradients: it reads x, dy, the weight and a number per row, and writes dx and dw.
        assertEquals(1, parts.backward().operations().size(), parts.backward().toString());
        assertEquals((3 * 6 * 32 + 2 * 32 + 6) * Float.BYTES, parts.backward().bytesMoved());
    }

    @Test
    void sumsOverFewLongRowsHaveAKernelOfTheirOwn() {
        TensorFunction scaled = in -> new Tensor[] {in[0].mul(in[1])};
        Tensor[] inputs = {torch.randn(2, 64), torch.randn(64)};
        Partition parts = partition(scaled, true, inputs).orElseThrow();
        assertEquals(2, parts.backward().operations().size(), parts.backward().toString());
        assertAgrees(scaled, parts, "long rows", inputs);
    }

    @Test
    void aGatedUnitSavesNothingBesidesItsInputs() {
        TensorFunction gate = in -> new Tensor[] {torch.silu(in[0]).mul(in[1])};
        Tensor[] inputs = {torch.randn(6, 32), torch.randn(6, 32)};
        Partition parts = partition(gate, true, inputs).orElseThrow();
        assertEquals(List.of(), saved(parts));
        assertEquals(1, parts.backward().operations().size()); // one kernel
        assertAgrees(gate, parts, "gate", inputs);
    }

    @Test
    void matrixMultiplicationsAreNotRecomputed() {
        TensorFunction layer =
                in -> new Tensor[] {torch.gelu(in[0].matmul(in[1])).matmul(in[2])};
        Tensor[] inputs = {torch.randn(6, 8), torch.randn(8, 16), torch.randn(16, 4)};
        Partition parts = partition(layer, true, inputs).orElseThrow();
        assertEquals(List.of(Layout.contiguous(DType.FLOAT32, 6, 16)), saved(parts)); // not both sides of the gelu
        assertAgrees(layer, parts, "layer", inputs);
    }

    private static long bytes(List<ProgramValue> values) {
        return values.stream().mapToLong(value -> value.layout().bytes()).sum();
    }

    @Test
    void theMemoryPlanOfAGatedUnitRecomputesItsGate() {
        TensorFunction gate = in -> new Tensor[] {torch.silu(in[0]).mul(in[1])};
        Tensor[] inputs = {torch.randn(6, 32), torch.randn(6, 32)};
        MemoryPlan plan = MemoryPlan.of(partition(gate, false, inputs).orElseThrow());
        assertEquals(2, plan.inputs().size());
        assertEquals(0, bytes(plan.saved()));
        assertTrue(bytes(plan.recomputed()) >= 6 * 32 * Float.BYTES, plan::toString); // at least the silu
    }

    @Test
    void theMemoryPlanSavesWhatOnlyAMatrixMultiplicationComputes() {
        TensorFunction layer =
                in -> new Tensor[] {torch.gelu(in[0].matmul(in[1])).matmul(in[2])};
        Tensor[] inputs = {torch.randn(6, 8), torch.randn(8, 16), torch.randn(16, 4)};
        MemoryPlan plan = MemoryPlan.of(partition(layer, false, inputs).orElseThrow());
        assertEquals(6 * 16 * Float.BYTES, bytes(plan.saved()));
        assertTrue(bytes(plan.recomputed()) >= 6 * 16 * Float.BYTES, plan::toString); // the gelu
    }

    @Test
    void aGeneratedKernelMovesFewerBytesThanItsOperations() {
        Program recorded = Recorder.record(
                in -> new Tensor[] {in[0].exp().add(in[1]).sqrt()}, torch.randn(4, 8), torch.randn(4, 8));
        long bytes = 4 * 8 * Float.BYTES;
        GeneratedKernel kernel =
                FusionPasses.kernels(FusionPasses.fuse(recorded, CPU)).get(0);
        assertEquals(
                List.of(3L, 7 * bytes, 3 * bytes),
                List.of((long) kernel.operations(), kernel.bytesSeparately(), kernel.bytesMoved()));
    }

    private static List<GeneratedKernel> kernels(TensorFunction function, Tensor... inputs) {
        return FusionPasses.kernels(FusionPasses.fuse(Recorder.record(function, inputs), CPU));
    }

    /** The kernel has the elements of its own rows only, and another row may be in another thread block. */
    @Test
    void elementsOfOtherRowsAreNotReadFromTheKernelThatComputesThem() {
        TensorFunction firstRow = in -> {
            try (var inner = MemoryScope.open()) {
                Tensor y = in[0].exp();
                Tensor scaled = y.mul(y.sum(LAST, true, new ScalarTypeOptional()));
                return new Tensor[] {
                    inner.escape(scaled), inner.escape(y.select(0, 0).neg())
                };
            }
        };
        assertEquals(2, kernels(firstRow, torch.randn(8, 8)).size(), "eight rows, and a first row of eight elements");
    }
}
