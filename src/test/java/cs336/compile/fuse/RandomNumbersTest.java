package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.kernels.runtime.EmulatedGpu;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.GeneratorOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Random numbers and dropout in lowered programs. */
class RandomNumbersTest extends ScopedTest {
    private static final Device CPU = Device.cpu();

    @TempDir
    Path folder;

    @BeforeEach
    void seed() {
        Torch.seed(5);
    }

    private static Tensor dropout(Tensor x, double p) {
        return torch.native_dropout(x, p, new BoolOptional(true)).get0();
    }

    private static Program fused(TensorFunction function, Tensor... inputs) {
        return FusionPasses.fuse(Recorder.record(function, inputs), CPU);
    }

    /** The first words of Philox4x32-10 for a counter and a key whose bits are all 0, or all 1. */
    @Test
    void philoxHasItsPublishedNumbers() {
        Tensor zeros = torch.tensor(0L);
        assertArrayEquals(
                new double[] {0x6627e8d5L, 0xe169c58dL, 0xbc57ac4cL, 0x9b00dbd8L},
                Tensors.toDoubles(Philox.of(zeros, zeros, torch.tensor(0L, 1L, 2L, 3L))));
        Tensor ones = torch.tensor(-1L);
        assertArrayEquals(
                new double[] {0x408f276dL, 0x41c83b0eL, 0xa20bc7c6L, 0x6d5451fdL},
                Tensors.toDoubles(Philox.of(ones, ones, torch.tensor(-4L, -3L, -2L, -1L))));
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, 0.1, 0.5, 0.9, 1})
    void dropoutZeroesAFractionAndScalesTheOthers(double p) {
        int n = 1 << 16;
        Tensor x = torch.ones(n).mul(new Scalar(3.0));
        Program program = fused(in -> new Tensor[] {dropout(in[0], p), dropout(in[0], p)}, x);
        var interpreter = new Interpreter(program);
        double[][] results = Stream.of(interpreter.run(x), interpreter.run(x))
                .flatMap(Stream::of)
                .map(Tensors::toDoubles)
                .toArray(double[][]::new);
        for (double[] result : results) {
            int zeros = 0;
            for (double y : result) {
                zeros += y == 0 ? 1 : 0;
                assertTrue(y == 0 || Math.abs(y * (1 - p) / 3 - 1) < 1e-6, "element " + y);
            }
            assertEquals(p * n, zeros, 5 * Math.sqrt(n * p * (1 - p)), "zeros"); // five standard deviations
        }
        for (int i = 0; i < results.length; i++) {
            for (int j = 0; j < i; j++) { // two operators in two runs are independent
                double both = 0;
                for (int k = 0; k < n; k++) {
                    both += results[i][k] == 0 && results[j][k] == 0 ? 1 : 0;
                }
                assertEquals(p * p * n, both, 5 * Math.sqrt(n * p * p * (1 - p * p)), "zeros in both");
            }
        }
    }

    @Test
    void theSameSeedGivesTheSameNumbers() {
        Tensor x = torch.randn(40, 30);
        var interpreter = new Interpreter(fused(in -> new Tensor[] {dropout(in[0], 0.5)}, x));
        Torch.seed(1);
        Tensor first = interpreter.run(x)[0];
        Tensor second = interpreter.run(x)[0];
        Torch.seed(1);
        assertTrue(torch.equal(first, interpreter.run(x)[0]));
        assertTrue(torch.equal(second, interpreter.run(x)[0]));
        assertFalse(torch.equal(first, second));
    }

    @Test
    void equalCallsOfARandomOperatorReturnDifferentNumbers() {
        Tensor x = torch.randn(30);
        Program program = fused(in -> new Tensor[] {torch.rand_like(in[0]), torch.rand_like(in[0])}, x);
        Tensor[] numbers = new Interpreter(program).run(x);
        assertFalse(torch.equal(numbers[0], numbers[1]), program.toString());
    }

    @Test
    void bernoulliInPlaceIsLowered() {
        Tensor x = torch.randn(1000);
        TensorFunction function =
                in -> new Tensor[] {torch.empty_like(in[0]).bernoulli_(0.25, new GeneratorOptional())};
        Program program = fused(function, x);
        assertTrue(program.toString().contains("random_seed"), program.toString());
        double mean = new Interpreter(program).run(x)[0].mean().item_double();
        assertEquals(0.25, mean, 5 * Math.sqrt(0.25 * 0.75 / 1000));
    }

    @Test
    void dropoutInEvaluationModeStaysAsItIs() {
        Tensor x = torch.randn(8);
        Program program = fused(
                in -> new Tensor[] {
                    torch.native_dropout(in[0], 0.5, new BoolOptional(false)).get0()
                },
                x);
        assertFalse(program.toString().contains("random_seed"));
        assertTrue(torch.equal(x, new Interpreter(program).run(x)[0]));
    }

    /** As for stochastic depth, which drops a layer by one random number. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void aTensorOfOneElementIsDroppedWithItsProbability(int dimensions) {
        Tensor one = torch.ones(dimensions == 0 ? new long[0] : new long[] {1});
        Program program = fused(in -> new Tensor[] {dropout(in[0], 0.5)}, one);
        assertTrue(program.toString().contains("random_seed"), program.toString());
        var interpreter = new Interpreter(program);
        double zeros = 0;
        for (int i = 0; i < 200; i++) {
            Tensor y = interpreter.run(one)[0];
            assertEquals(dimensions, y.dim());
            zeros += y.item_double() == 0 ? 1 : 0;
        }
        assertEquals(100, zeros, 5 * Math.sqrt(200 * 0.25), "zeros"); // five standard deviations
    }

    @Test
    void backwardRecomputesTheMaskFromTheSeed() {
        Tensor x = torch.randn(64, 48);
        TensorFunction both = in -> {
            Tensor leaf = in[0].detach().set_requires_grad(true);
            Tensor y = dropout(leaf.exp(), 0.4);
            return new Tensor[] {y.detach(), Backward.of(y).with(in[1]).gradients(leaf)[0]};
        };
        Tensor dy = torch.randn(64, 48);
        Program joint = Recorder.record(both, x, dy);
        Partition parts = Partition.of(FusionPasses.prepare(joint, CPU), 1, 1)
                .map(p -> p.fused(CPU))
                .orElseThrow();
        Tensor[] forward = new Interpreter(parts.forward()).run(x);
        Tensor[] saved =
                Stream.concat(Stream.of(forward).skip(1), Stream.of(dy)).toArray(Tensor[]::new);
        long[] sizes = Stream.of(saved).mapToLong(Tensor::numel).sorted().toArray();
        assertArrayEquals(new long[] {1, x.numel(), x.numel()}, sizes, "elements of the seed, of x, and of dy");
        Tensor gradient = new Interpreter(parts.backward()).run(saved)[0];
        Tensor expected = forward[0].mul(dy); // the derivative of exp is exp
        assertTrue(torch.allclose(expected, gradient), "gradient");
        assertTrue(torch.equal(forward[0].eq(new Scalar(0.0)), gradient.eq(new Scalar(0.0))), "mask");
    }

    /** Returns functions with dropout of all elements, of one number per row, and in other layouts. */
    private static Stream<TensorFunction> functions() {
        return Stream.of(
                in -> new Tensor[] {dropout(in[0].exp(), 0.3)},
                in -> new Tensor[] {dropout(torch.softmax(in[0], -1), 0.3)},
                in -> new Tensor[] {in[0].mul(dropout(in[0].sum(-1).exp(), 0.3).unsqueeze(-1))},
                in -> new Tensor[] {dropout(in[0], 0.3).sum(0)},
                in -> new Tensor[] {dropout(in[0].transpose(0, 1), 0.3).add(in[0].transpose(0, 1))},
                in -> new Tensor[] {dropout(in[0].to(DType.BFLOAT16.scalarType()), 0.3)},
                in -> new Tensor[] {in[0].mul(dropout(in[0].mean(), 0.3))},
                in -> new Tensor[] {dropout(dropout(in[0], 0.2).tanh(), 0.3).add(in[0])});
    }

    @Test
    void kernelsDrawTheNumbersOfTheirOperations() throws Exception {
        assumeTrue(EmulatedGpu.isAvailable(), "g++ is not installed");
        var kernels = new EmulatedKernels();
        for (TensorFunction function : functions().toList()) {
            for (long[] shape : new long[][] {{12, 40}, {5, 33}}) {
                Tensor x = torch.randn(shape);
                Program program = fused(function, x);
                int before = kernels.size();
                kernels.add(program, x);
                assertTrue(kernels.size() > before, "kernels");
                FusionPasses.kernels(program).stream()
                        .map(kernel -> KernelSource.of(FusedKernel.FILE, kernel.source()))
                        .forEach(source ->
                                KernelCompiler.shared().compile(source, Map.of(), GpuArchitecture.parse("sm_90a")));
            }
        }
        kernels.compare(folder, result -> {
            boolean close = torch.allclose(wide(result.expected()), wide(result.got()), 1e-2, 1e-5, false);
            assertTrue(close, result.kernel());
        });
    }

    @Test
    @Tag("gpu")
    void kernelsOnAGpuDrawTheNumbersOfTheirOperations() {
        Device gpu = Device.cuda(0);
        Tensor x = torch.randn(new long[] {120, 72}, gpu.options(DType.FLOAT32));
        for (TensorFunction function : functions().toList()) {
            Map<String, Program> stages = FusionPasses.stages(Recorder.record(function, x), gpu);
            Torch.seed(4);
            Tensor expected = new Interpreter(stages.get("lowered")).run(x)[0];
            Torch.seed(4);
            Tensor got = new Interpreter(stages.get("fused")).run(x)[0];
            assertTrue(torch.allclose(wide(expected), wide(got), 1e-2, 1e-5, false), stages.get("fused")::toString);
        }
    }

    private static Tensor wide(Tensor x) {
        return x.to(DType.FLOAT64.scalarType());
    }
}
