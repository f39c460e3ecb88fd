package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.RmsNorm;
import cs336.compile.fuse.KernelEmitter.EmittedKernel;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.KernelVariant;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.DeviceOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class KernelTileTest extends ScopedTest {
    private static final int WIDE = 8192; // with four tensors of a row in fp32, the most that a block keeps

    @BeforeEach
    void seed() {
        Torch.seed(System.nanoTime());
    }

    /** Returns both passes of RMSNorm as one program of x, weight and dy: y, dx, dw. */
    private static Program rmsNorm(int rows, int width, DType dtype, Device device) {
        try (var norm = new RmsNorm(width, device, dtype)) {
            Tensor weight = norm.parameters().get(0);
            TensorFunction bothPasses = in -> {
                try (var scope = MemoryScope.open()) {
                    Tensor x = in[0].detach().set_requires_grad(true);
                    Tensor y = norm.forward(x);
                    Tensor[] gradients = Backward.of(y).with(in[2]).gradients(x, weight);
                    return new Tensor[] {
                        scope.escape(y.detach()), scope.escape(gradients[0]), scope.escape(gradients[1])
                    };
                }
            };
            Tensor x = torch.randn(new long[] {rows, width}, device.options(dtype));
            return Recorder.record(bothPasses, x, weight.detach(), torch.randn_like(x));
        }
    }

    /** Returns the fused passes of RMSNorm. */
    static Partition partition(int rows, int width, DType dtype, Device device) {
        Program prepared = FusionPasses.prepare(rmsNorm(rows, width, dtype, device), device);
        return Partition.of(prepared, 2, 1).orElseThrow().fused(device);
    }

    static List<FusedKernel> kernels(Program program) {
        return program.operations().stream()
                .map(Operation::operator)
                .filter(FusedKernel.class::isInstance)
                .map(FusedKernel.class::cast)
                .toList();
    }

    @Test
    void aBlockNeedsItsDynamicAndItsStaticSharedMemory() {
        var kernel = new EmittedKernel("", 32, 1, 1, 100, 28, 1, List.of());
        assertTrue(kernel.fits(128));
        assertFalse(kernel.fits(127));
    }

    /** A number per row, like the reciprocal root, does not take the registers of a row. */
    @Test
    void eachPassOfAWideRmsNormIsOneKernel() {
        Partition parts = partition(600, WIDE, DType.FLOAT32, Device.cpu());
        assertEquals(1, kernels(parts.forward()).size(), parts.forward().toString());
        assertEquals(1, kernels(parts.backward()).size(), parts.backward().toString());
    }

    /** An odd width has accesses of one element. */
    @ParameterizedTest
    @ValueSource(ints = {4097, 8193, 16385})
    void aRowHasAtMostTheThreadsOfABlock(int width) {
        Partition parts = partition(3, width, DType.FLOAT32, Device.cpu());
        for (EmittedKernel kernel : kernels(parts.forward()).get(0).candidates()) {
            assertTrue(kernel.blockThreads() <= 1024, kernel.source());
        }
    }

    @Test
    void whatAllRowsShareIsLoadedAfterTheReduction() {
        Partition parts = partition(600, WIDE, DType.FLOAT32, Device.cpu());
        String source = kernels(parts.forward()).get(0).emitted().source();
        int row = source.indexOf("::load(in0 + row");
        int reduction = source.indexOf("reduceRow<Sum");
        int weight = source.indexOf("::load(in1 + column)");
        assertTrue(row >= 0 && row < reduction && reduction < weight, source);
    }

    @Test
    void severalBlocksThatLoadNarrowRowsTwiceShareAMultiprocessor() {
        Tensor x = withoutMemory(DType.FLOAT32, Gpu.STREAM_BYTES / Float.BYTES / 1024 + 1, 1024);
        Program program = Recorder.record(KernelTileTest::norm, x, x, x, withoutMemory(DType.FLOAT32, 1024));
        String source = kernels(FusionPasses.fuse(program, Device.cpu()))
                .get(0)
                .emitted()
                .source();
        assertTrue(source.contains("__launch_bounds__(THREADS * BLOCK_ROWS, 8)"), source);
    }

    /** The reduction and the last pass of these functions read up to three tensors. */
    @ParameterizedTest
    @ValueSource(ints = {2048, 4096})
    void kernelsThatReloadRowsDoNotSpill(int width) {
        List<TensorFunction> functions =
                List.of(KernelTileTest::norm, in -> new Tensor[] {torch.log_softmax(in[0], -1)}, in -> {
                    Tensor sum = in[0].add(in[1]).add(in[2]);
                    Tensor square = sum.square().mean(new long[] {-1}, true, null);
                    return new Tensor[] {sum, sum.mul(square.rsqrt()).mul(in[3])};
                });
        int reloading = 0;
        for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16)) {
            long rows = Gpu.STREAM_BYTES / dtype.bytes() / width + 1;
            Tensor[] inputs = new Tensor[4];
            for (int i = 0; i < 4; i++) {
                inputs[i] = withoutMemory(dtype, i < 3 ? rows : 1, width);
            }
            inputs[3] = inputs[3].select(0, 0); // the weight
            for (TensorFunction function : functions) {
                for (FusedKernel kernel : kernels(FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu()))) {
                    String source = kernel.emitted().source();
                    reloading += source.contains("loadLast(") ? 1 : 0;
                    var generated = KernelSource.of(FusedKernel.FILE, source);
                    var cubin = KernelCompiler.shared().compile(generated, Map.of(), KernelVariant.HOPPER);
                    assertEquals(List.of(), KernelVariant.faults(cubin), source);
                }
            }
        }
        assertTrue(reloading >= functions.size(), reloading + " kernels reload rows");
    }

    /** Returns a tensor whose operations compute shapes only, for programs of large tensors. */
    private static Tensor withoutMemory(DType dtype, long... shape) {
        var meta = new DeviceOptional(new org.bytedeco.pytorch.Device("meta"));
        return torch.zeros(shape, new TensorOptions(dtype.scalarType()).device(meta));
    }

    /** Returns the RMSNorm without epsilon of a tensor with a weight. */
    private static Tensor[] norm(Tensor... in) {
        Tensor x = in[0].to(DType.FLOAT32.scalarType());
        Tensor square = x.square().mean(new long[] {-1}, true, null);
        return new Tensor[] {x.mul(square.rsqrt()).mul(in[3]).to(in[0].scalar_type())};
    }

    /** Both loads have hints for L2. Otherwise a row is loaded once. */
    @Test
    void rowsOfInputsThatAreLargerThanTheCacheAreLoadedTwice() {
        int fitting = (int) (Gpu.STREAM_BYTES / Float.BYTES / WIDE) - 1; // with the weight
        for (int rows : new int[] {fitting, fitting + 1}) {
            Tensor x = withoutMemory(DType.FLOAT32, rows, WIDE);
            Tensor weight = withoutMemory(DType.FLOAT32, WIDE);
            Program program = Recorder.record(KernelTileTest::norm, x, x, x, weight);
            String source = kernels(FusionPasses.fuse(program, Device.cpu()))
                    .get(0)
                    .emitted()
                    .source();
            assertEquals(rows > fitting, source.contains("x0[k] = Elements<float, VEC>::loadKept(in0"), source);
            assertEquals(rows > fitting, source.contains("x0[k] = Elements<float, VEC>::loadLast(in0"), source);
        }
    }

    @Test
    void wideRowsOf16BitsArePrefetchedWithoutSpills() {
        Partition parts = partition(600, WIDE, DType.BFLOAT16, Device.cpu());
        EmittedKernel kernel = kernels(parts.backward()).get(0).emitted();
        assertTrue(kernel.source().contains("prefetch(row, stage)"), kernel.source());
        KernelSource source = KernelSource.of(FusedKernel.FILE, kernel.source());
        var cubin = KernelCompiler.shared().compile(source, Map.of(), KernelVariant.HOPPER);
        assertEquals(0, cubin.resources(FusedKernel.KERNEL).spillStores());
    }

    /** An asynchronous copy has the bytes of a whole access. */
    @Test
    void rowsThatStartBetweenAlignedAddressesAreNotPrefetched() {
        Tensor x = withoutMemory(DType.BFLOAT16, 600, WIDE);
        Tensor unaligned = withoutMemory(DType.BFLOAT16, 600, WIDE + 1).narrow(1, 0, WIDE);
        TensorFunction function = in -> {
            Tensor y = in[0].add(in[1]).softmax(-1);
            return new Tensor[] {y, y.sum(0)};
        };
        String source = kernels(FusionPasses.fuse(Recorder.record(function, x, unaligned), Device.cpu()))
                .get(0)
                .emitted()
                .source();
        assertTrue(source.contains("Elements<bf16, VEC>::copyAsync(at(stage, 0, k), in0"), source);
        assertFalse(source.contains("at(stage, 1, k)"), source);
    }

    /** Two rows of six tensors take 192 KiB. */
    @Test
    void rowsThatDoNotFitIntoSharedMemoryAreNotPrefetched() {
        Tensor[] inputs = new Tensor[6];
        Arrays.setAll(inputs, i -> withoutMemory(DType.BFLOAT16, 600, WIDE));
        TensorFunction function = in -> {
            Tensor sum = in[0].to(DType.FLOAT32.scalarType());
            for (int i = 1; i < in.length; i++) {
                sum = sum.add(in[i]);
            }
            Tensor y = sum.softmax(-1);
            return new Tensor[] {y.to(in[0].scalar_type()), y.sum(0)};
        };
        List<FusedKernel> fused = kernels(FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu()));
        assertEquals(1, fused.size());
        assertEquals(2, fused.get(0).outputs().size());
        assertEquals(0, fused.get(0).emitted().sharedBytes());
        fused.get(0).candidates().forEach(form -> assertTrue(form.fits(192 * 1024 - 1), form.source()));
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16"})
    void theRuleIsACandidateAndCandidatesCompile(DType dtype) {
        FusedKernel kernel =
                kernels(partition(300, 256, dtype, Device.cpu()).backward()).get(0);
        List<String> sources =
                kernel.candidates().stream().map(EmittedKernel::source).toList();
        assertTrue(sources.contains(kernel.emitted().source()));
        assertEquals(sources.size(), sources.stream().distinct().count());
        assertTrue(sources.stream().anyMatch(source -> source.contains("prefetch(row, stage)")));
        for (EmittedKernel candidate : kernel.candidates()) {
            int fixed = KernelCompiler.shared()
                    .compile(KernelSource.of(FusedKernel.FILE, candidate.source()), Map.of(), KernelVariant.HOPPER)
                    .resources(FusedKernel.KERNEL)
                    .sharedBytes();
            assertTrue(
                    candidate.staticBytes() <= fixed && fixed <= candidate.staticBytes() + 3 * 1024,
                    candidate.source());
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16"})
    @Tag("gpu")
    void allTilesComputeTheSame(DType dtype) {
        Device gpu = Device.cuda(0);
        for (int width : new int[] {1024, 1000, 96}) { // 1,000: the last threads of a row have fewer elements
            Partition parts = partition(700, width, dtype, gpu);
            for (Program pass : List.of(parts.forward(), parts.backward())) {
                kernels(pass).forEach(kernel -> assertTilesAgree(kernel, width, gpu));
            }
        }
        FusedKernel pointwise = kernels(pointwise(dtype, gpu)).get(0);
        assertTilesAgree(pointwise, 1, gpu);
    }

    private static Program pointwise(DType dtype, Device device) {
        Tensor x = torch.randn(new long[] {5000}, device.options(dtype));
        return FusionPasses.fuse(Recorder.record(in -> new Tensor[] {in[0].exp().mul(in[0])}, x), device);
    }

    /** Returns positive random inputs of a kernel. */
    static Tensor[] inputs(FusedKernel kernel, Device device) {
        return kernel.inputs().stream()
                .map(value -> torch.rand(value.layout().shape(), device.options(DType.FLOAT32))
                        .add(new Scalar(0.5))
                        .to(value.layout().dtype().scalarType()))
                .toArray(Tensor[]::new);
    }

    private static void assertTilesAgree(FusedKernel kernel, int width, Device device) {
        Tensor[] in = inputs(kernel, device);
        Tensor[] expected = kernel.runMembers(in);
        for (EmittedKernel form : kernel.candidates()) {
            Tensor[] out = kernel.outputs().stream()
                    .map(value -> torch.full(
                            value.layout().shape(),
                            new Scalar(Double.NaN),
                            device.options(value.layout().dtype())))
                    .toArray(Tensor[]::new);
            kernel.launch(form, in, out);
            for (int i = 0; i < out.length; i++) {
                double bound = DType.of(expected[i]) == DType.BFLOAT16 ? 8e-3 : 4e-6;
                Tensor wide = expected[i].to(DType.FLOAT64.scalarType());
                double error =
                        out[i].to(DType.FLOAT64.scalarType()).sub(wide).norm().item_double()
                                / wide.norm().item_double();
                assertTrue(error <= bound, "width " + width + ", output " + i + ": " + error + "\n" + form.source());
            }
        }
    }
}
