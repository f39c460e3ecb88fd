package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.basics.TransformerConfig;
import cs336.bench.Precision;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.kernels.runtime.EmulatedGpu;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.util.List;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The CUDA sources of generated kernels, without a GPU. */
class EmulatedKernelsTest {
    private static final int SEEDS = 100;
    private static final int MEAN = 1; // the reduction of a loss

    @TempDir
    Path folder;

    @BeforeAll
    static void needsACompiler() {
        assumeTrue(EmulatedGpu.isAvailable(), "g++ is not installed");
    }

    @Test
    void kernelsOfRandomFunctionsComputeTheirOperations() throws Exception {
        var kernels = new EmulatedKernels();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            for (int seed = 0; seed < SEEDS; seed++) {
                Torch.seed(seed);
                var function = new RandomFunction(seed);
                Tensor[] inputs = function.inputs(Device.cpu());
                Program recorded = Recorder.record(function, inputs);
                kernels.add(FusionPasses.fuse(recorded, Device.cpu()), inputs);
            }
        }
        assertTrue(kernels.size() > SEEDS, kernels.size() + " kernels");
        kernels.compare(folder, EmulatedKernelsTest::assertClose);
    }

    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16", "FP16"})
    void kernelsOfATrainingStepComputeTheirOperations(Precision precision) throws Exception {
        var kernels = new EmulatedKernels();
        List<TransformerConfig> configs = LanguageModelStep.configs(100, 12, 32, 48)
                .filter(config -> config.attention().equals("plain"))
                .filter(config -> !config.normalization().equals("rmsnorm-fused"))
                .toList();
        for (TransformerConfig config : configs) {
            try (var scope = MemoryScope.open();
                    var step = new LanguageModelStep(config, precision, Device.cpu())) {
                kernels.add(FusionPasses.fuse(step.record(), Device.cpu()), step.batch());
            }
        }
        kernels.compare(folder, EmulatedKernelsTest::assertClose);
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16"})
    void allTilesOfRmsNormComputeTheSame(DType dtype) throws Exception {
        int width = 200; // the last threads of a row have fewer elements than the others
        var kernels = new EmulatedKernels();
        try (var scope = MemoryScope.open()) {
            Partition parts = KernelTileTest.partition(300, width, dtype, Device.cpu());
            for (Program pass : List.of(parts.forward(), parts.backward())) {
                for (FusedKernel kernel : KernelTileTest.kernels(pass)) {
                    Tensor[] in = KernelTileTest.inputs(kernel, Device.cpu());
                    kernel.candidates().forEach(form -> kernels.add(kernel, form, in));
                }
            }
        }
        kernels.compare(folder, EmulatedKernelsTest::assertClose);
    }

    @Test
    void kernelsComputeIndicesInfiniteNumbersAndSingleColumns() throws Exception {
        var kernels = new EmulatedKernels();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor square = torch.randn(16, 16);
            add(kernels, in -> new Tensor[] {in[0].add(new Scalar(-1e300)).exp()}, square);
            add(kernels, in -> new Tensor[] {dropout(in[0]).sum(1)}, square);
            add(kernels, in -> new Tensor[] {dropout(in[0].sum(1))}, square);
            add(kernels, in -> new Tensor[] {in[0].sum(0)}, torch.randn(64, 1));
            TensorFunction targets = in ->
                    new Tensor[] {torch.nll_loss_backward(in[0], in[1], in[2], new TensorOptional(), MEAN, -100, in[3])
                    };
            Tensor labels = torch.arange(new Scalar(16));
            add(kernels, targets, torch.tensor(1f), square, labels, torch.tensor(16f));
        }
        kernels.compare(folder, EmulatedKernelsTest::assertClose);
    }

    private static Tensor dropout(Tensor x) {
        return torch.native_dropout(x, 0.5, new BoolOptional(true)).get0();
    }

    private static void add(EmulatedKernels kernels, TensorFunction function, Tensor... inputs) {
        kernels.add(FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu()), inputs);
    }

    private static void assertClose(EmulatedKernels.Comparison result) {
        DType dtype = DType.of(result.expected());
        assertEquals(dtype, DType.of(result.got()));
        if (result.expected().numel() == 0) {
            return;
        }
        double bound = dtype == DType.BFLOAT16 ? 1e-2 : dtype == DType.FLOAT16 ? 1e-3 : RandomFunctionTest.BOUND;
        Tensor expected = result.expected().to(DType.FLOAT64.scalarType());
        double scale = expected.abs().max().item_double() + 1e-30;
        double error = result.got()
                        .to(DType.FLOAT64.scalarType())
                        .sub(expected)
                        .abs()
                        .max()
                        .item_double()
                / scale;
        assertTrue(error <= bound, error + ": " + result.kernel());
    }
}
