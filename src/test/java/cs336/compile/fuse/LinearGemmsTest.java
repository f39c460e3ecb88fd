package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.kernels.gemm.Epilogue;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Compiles for a GPU with one cluster, and runs the programs on the CPU. */
class LinearGemmsTest extends ScopedTest {
    private static final Device CPU = Device.cpu();
    private static final LinearKernels ONE_CLUSTER = new LinearKernels(2, true);

    private static long count(Program program, String operator) {
        return program.operations().stream()
                .filter(operation -> operation.operator().toString().equals(operator))
                .count();
    }

    private static Tensor[] inScope(Function<Tensor[], Tensor[]> function, Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor[] outputs = function.apply(inputs);
            Arrays.setAll(outputs, i -> scope.escape(outputs[i]));
            return outputs;
        }
    }

    /** Returns the compiled function, after a comparison of its outputs for new inputs. */
    private static Program compiled(LinearKernels kernels, Function<Tensor[], Tensor[]> function, Tensor... inputs) {
        TensorFunction scoped = in -> inScope(function, in);
        Program prepared = FusionPasses.prepare(Recorder.record(scoped, inputs), CPU);
        Program program = FusionPasses.fusePrepared(GemmMerging.of(LinearGemms.of(prepared, kernels)), CPU);
        for (Tensor input : inputs) {
            input.normal_();
        }
        Tensor[] expected = scoped.apply(inputs);
        Tensor[] found = new Interpreter(program).run(inputs);
        for (int i = 0; i < expected.length; i++) {
            double tolerance = DType.of(expected[i]) == DType.FLOAT32 ? 1e-4 : 2e-2;
            double error = expected[i].sub(found[i]).norm().item_double()
                    / expected[i].norm().item_double();
            assertTrue(error < tolerance, "output " + i + ": error " + error + " of " + program);
        }
        return program;
    }

    /** Compiles −X · Wᵢᵀ for all i, with casts of both if the dtype has 16 bits. */
    private static Program ofLayers(DType type, long rows, long depth, long... columns) {
        Tensor[] inputs = new Tensor[1 + columns.length];
        Arrays.setAll(inputs, i -> i == 0 ? torch.randn(rows, depth) : torch.randn(columns[i - 1], depth));
        return compiled(
                ONE_CLUSTER,
                in -> {
                    Tensor x = in[0].to(type.scalarType());
                    Tensor[] outputs = new Tensor[in.length - 1];
                    Arrays.setAll(
                            outputs,
                            i -> x.mm(in[i + 1].to(type.scalarType()).t()).neg());
                    return outputs;
                },
                inputs);
    }

    private static String kernel(DType type) {
        return type == DType.FLOAT32 ? "gemm_tf32" : "gemm_mixed";
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"FLOAT32", "BFLOAT16", "FLOAT16"})
    void multiplicationsWithACommonInputBecomeOneThatReadsFp32Weights(DType type) {
        Program program = ofLayers(type, 512, 640, 256, 256, 256);
        assertEquals(1, count(program, kernel(type)), program.toString());
        assertEquals(0, count(program, "mm"), program.toString());
        long casts = program.operations().stream()
                .filter(operation -> Arrays.equals(operation.output().shape(), new long[] {256, 640}))
                .count();
        assertEquals(0, casts, program.toString());
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"FLOAT32", "BFLOAT16"})
    void othersAreReplacedOneByOne(DType type) {
        assertEquals(4, count(ofLayers(type, 512, 640, 384, 384, 384, 384), kernel(type)), "more than three weights");
        assertEquals(2, count(ofLayers(type, 512, 640, 384, 768), kernel(type)), "weights of different sizes");
        assertEquals(2, count(ofLayers(type, 512, 640, 392, 392), kernel(type)), "no tiles of one weight");
        assertEquals(1, count(ofLayers(type, 512, 640, 384), kernel(type)), "one weight");
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"FLOAT32", "BFLOAT16"})
    void whatIsSmallOrUnalignedIsLeftToCublas(DType type) {
        assertEquals(0, count(ofLayers(type, 64, 640, 384, 384), kernel(type)), "few rows");
        assertEquals(0, count(ofLayers(type, 512, 638, 384, 384), kernel(type)), "rows of the operands");
        assertEquals(0, count(ofLayers(type, 512, 640, 382), kernel(type)), "rows of the result");
    }

    private static Tensor cast(Tensor x) {
        return x.to(DType.BFLOAT16.scalarType());
    }

    private static void assertNoKernel(LinearKernels kernels, Function<Tensor[], Tensor[]> function, Tensor... inputs) {
        Program program = compiled(kernels, function, inputs);
        boolean hasKernel = program.operations().stream()
                .anyMatch(operation -> operation.operator().toString().startsWith("gemm_"));
        assertFalse(hasKernel, program.toString());
    }

    @Test
    void castsThatAreNeededOtherwiseOrAreNoMatrixAreStored() {
        Tensor x = torch.randn(512, 640);
        assertNoKernel(
                ONE_CLUSTER,
                in -> {
                    Tensor w = cast(in[1]);
                    return new Tensor[] {cast(in[0]).mm(w.t()), w};
                },
                x,
                torch.randn(384, 640));
        assertNoKernel(
                ONE_CLUSTER,
                in -> {
                    Tensor w = cast(in[1]);
                    return new Tensor[] {cast(in[0]).mm(w.t()).mm(w)};
                },
                x,
                torch.randn(384, 640));
        assertNoKernel(
                ONE_CLUSTER,
                in -> new Tensor[] {cast(in[0]).mm(cast(in[1].neg()).t())},
                x,
                torch.randn(384, 640));
        assertNoKernel(
                ONE_CLUSTER,
                in -> new Tensor[] {cast(in[0]).mm(cast(in[1]).view(384, 640).t())},
                x,
                torch.randn(640, 384));
        assertNoKernel(
                ONE_CLUSTER,
                in -> new Tensor[] {cast(in[0]).mm(cast(in[1]).view(384, 640).t())},
                x,
                torch.randn(384 * 640));
    }

    @Test
    void returnedProductsAreNotMovedNextToEachOther() {
        Program program = compiled(
                ONE_CLUSTER,
                in -> new Tensor[] {in[0].mm(in[1].t()), in[0].mm(in[2].t()), in[0].mm(in[3].t())},
                torch.randn(512, 640),
                torch.randn(256, 640),
                torch.randn(256, 640),
                torch.randn(256, 640));
        assertEquals(3, count(program, "gemm_tf32"), program.toString());
    }

    @Test
    void onlyTransposedWeightsAreReplacedAndOnlyIfTf32IsAllowed() {
        Tensor square = torch.randn(512, 512);
        assertNoKernel(
                ONE_CLUSTER, in -> new Tensor[] {in[0].mm(in[1]), in[0].t().mm(in[1])}, square, torch.randn(512, 512));
        assertNoKernel(
                new LinearKernels(2, false), in -> new Tensor[] {in[0].mm(in[1].t())}, square, torch.randn(512, 512));
    }

    @Test
    void programsForTheCpuStayAsTheyAre() {
        Program program = FusionPasses.prepare(
                Recorder.record(in -> new Tensor[] {in[0].mm(in[0].t())}, torch.randn(512, 512)), CPU);
        assertSame(program, LinearGemms.of(program, CPU));
    }

    @Test
    void noRowsAreLeftToCublas() {
        Program recorded =
                Recorder.record(in -> new Tensor[] {in[0].mm(in[1].t())}, torch.randn(0, 640), torch.randn(384, 640));
        Program program = LinearGemms.of(FusionPasses.prepare(recorded, CPU), ONE_CLUSTER);
        assertEquals(0, count(program, "gemm_tf32"), program.toString());
    }

    private static final int FEATURES = 384;

    /**
     * Compiles a function of X · W₁ᵀ, X · W₂ᵀ and X, which has three dimensions, with casts to the dtype, and counts
     * the kernels for an epilogue.
     */
    private static long kernels(
            LinearKernels kernels,
            DType type,
            Epilogue epilogue,
            long features,
            Function<Tensor[], Tensor[]> function) {
        Program program = compiled(
                kernels,
                in -> {
                    Tensor x = in[0].to(type.scalarType()).view(-1, in[0].size(-1));
                    Tensor gate = x.mm(in[1].to(type.scalarType()).t());
                    return function.apply(
                            new Tensor[] {gate, x.mm(in[2].to(type.scalarType()).t()), x});
                },
                torch.randn(2, 256, 640),
                torch.randn(features, 640),
                torch.randn(features, 640));
        return count(program, epilogue.name(kernel(type)));
    }

    private static long kernels(Epilogue epilogue, Function<Tensor[], Tensor[]> function) {
        long tf32 = kernels(ONE_CLUSTER, DType.FLOAT32, epilogue, FEATURES, function);
        assertEquals(tf32, kernels(ONE_CLUSTER, DType.BFLOAT16, epilogue, FEATURES, function));
        return tf32;
    }

    private static long swiGluKernels(Function<Tensor[], Tensor[]> function) {
        return kernels(Epilogue.SWIGLU, function);
    }

    private static long geluKernels(Function<Tensor[], Tensor[]> function) {
        return kernels(Epilogue.GELU, function);
    }

    private static Tensor[] swiGlu(Tensor... in) {
        return new Tensor[] {torch.silu(in[0]).mul(in[1])};
    }

    private static Tensor[] gelu(Tensor... in) {
        return new Tensor[] {torch.gelu(in[0])};
    }

    @Test
    void swiGluIsOneKernelInAllShapesAndBothOrders() {
        assertEquals(1, swiGluKernels(LinearGemmsTest::swiGlu));
        assertEquals(1, swiGluKernels(in -> new Tensor[] {in[1].mul(torch.silu(in[0]))}));
        assertEquals(1, swiGluKernels(in ->
                new Tensor[] {swiGlu(in[0].view(2, 256, -1), in[1].view(2, 256, -1))[0].neg()}));
    }

    @Test
    void geluIsOneKernelInAllShapes() {
        assertEquals(1, geluKernels(LinearGemmsTest::gelu));
        assertEquals(2, geluKernels(in -> new Tensor[] {torch.gelu(in[0]), torch.gelu(in[1])}));
        assertEquals(1, geluKernels(in -> new Tensor[] {gelu(in[0].view(2, 256, -1))[0].neg()}));
    }

    @Test
    void resultsThatAreReadOtherwiseAreStored() {
        assertEquals(0, swiGluKernels(in -> new Tensor[] {swiGlu(in)[0], in[0].neg()}), "gate");
        assertEquals(0, swiGluKernels(in -> new Tensor[] {swiGlu(in)[0], in[1].neg()}), "up");
        assertEquals(0, swiGluKernels(in -> new Tensor[] {swiGlu(in)[0], in[0]}), "returned gate");
        assertEquals(
                0,
                swiGluKernels(in -> {
                    Tensor silu = torch.silu(in[0]);
                    return new Tensor[] {silu.mul(in[1]), silu};
                }),
                "returned silu");
        assertEquals(0, geluKernels(in -> new Tensor[] {torch.gelu(in[0]), in[0].neg()}), "argument of GELU");
        assertEquals(0, geluKernels(in -> new Tensor[] {torch.gelu(in[0]), in[0]}), "returned argument of GELU");
    }

    @Test
    void otherProductsAreNotSwiGlu() {
        assertEquals(0, swiGluKernels(in -> new Tensor[] {torch.sigmoid(in[0]).mul(in[1])}), "sigmoid");
        assertEquals(
                0,
                swiGluKernels(
                        in -> new Tensor[] {torch.silu(torch.ones_like(in[0])).mul(in[1])}),
                "a constant gate");
        assertEquals(0, swiGluKernels(in -> new Tensor[] {torch.silu(in[0]).mul(in[0])}), "one matrix multiplication");
        assertEquals(
                0, swiGluKernels(in -> swiGlu(in[0], in[2].neg().mm(in[2].t()).mm(in[1]))), "another input");
    }

    private static Tensor[] withErf(Tensor x, double factor, double shift, double half) {
        Tensor erf = x.mul(new Scalar(factor)).erf();
        return new Tensor[] {x.mul(erf.add(new Scalar(shift)).mul(new Scalar(half)))};
    }

    @Test
    void functionsThatResembleGeluAreNotGelu() {
        double root = Math.sqrt(0.5);
        assertEquals(
                1, kernels(ONE_CLUSTER, DType.FLOAT32, Epilogue.GELU, FEATURES, in -> withErf(in[0], root, 1, 0.5)));
        assertEquals(0, geluKernels(in -> withErf(in[0], 0.7, 1, 0.5)), "factor");
        assertEquals(0, geluKernels(in -> withErf(in[0], root, 1.5, 0.5)), "shift");
        assertEquals(0, geluKernels(in -> withErf(in[0], root, 1, 0.25)), "half");
        assertEquals(0, geluKernels(in -> new Tensor[] {torch.gelu(in[0].neg())}), "no matrix multiplication");
        assertEquals(
                0,
                geluKernels(in -> new Tensor[] {
                    in[1].mul(in[0].mul(new Scalar(root))
                            .erf()
                            .add(new Scalar(1.0))
                            .mul(new Scalar(0.5))),
                    in[1].neg()
                }),
                "two matrix multiplications");
    }

    @Test
    void partsOfResultsAndOtherOrdersOfTheirElementsAreComputedSeparately() {
        assertEquals(0, swiGluKernels(in -> swiGlu(in[0].narrow(1, 0, 192), in[1].narrow(1, 0, 192))), "columns");
        assertEquals(0, swiGluKernels(in -> swiGlu(in[0].t(), in[1].t())), "transposed");
        assertEquals(0, geluKernels(in -> gelu(in[0].narrow(0, 0, 256))), "rows");
    }

    @Test
    void swiGluOfTwoInputsIsComputedSeparately() {
        Program program = compiled(
                ONE_CLUSTER,
                in -> swiGlu(in[0].mm(in[2].t()), in[1].mm(in[3].t())),
                torch.randn(512, 640),
                torch.randn(512, 640),
                torch.randn(FEATURES, 640),
                torch.randn(FEATURES, 640));
        assertEquals(0, count(program, "gemm_tf32_swiglu"), program.toString());
    }

    @Test
    void aPartOfAWeightIsCastByTheKernel() {
        Program program = compiled(
                ONE_CLUSTER,
                in -> new Tensor[] {
                    cast(in[0]).mm(cast(in[1].narrow(0, 8, FEATURES)).t()).neg()
                },
                torch.randn(512, 640),
                torch.randn(2 * FEATURES, 640));
        assertEquals(1, count(program, "gemm_mixed"), program.toString());
    }

    @Test
    void aResultOfAnotherDtypeIsComputedSeparately() {
        Function<Tensor[], Tensor[]> wideSwiGlu =
                in -> swiGlu(in[0].to(torch.ScalarType.Double), in[1].to(torch.ScalarType.Double));
        assertEquals(0, swiGluKernels(wideSwiGlu));
        assertEquals(0, geluKernels(in -> gelu(in[0].to(torch.ScalarType.Double))));
        long wideGelu = kernels(
                ONE_CLUSTER, DType.BFLOAT16, Epilogue.GELU, FEATURES, in -> gelu(in[0].to(torch.ScalarType.Float)));
        assertEquals(0, wideGelu);
    }

    @Test
    void whatTheKernelsDoNotSupportIsLeftToOthers() {
        for (Epilogue epilogue : List.of(Epilogue.GELU, Epilogue.SWIGLU)) {
            Function<Tensor[], Tensor[]> function =
                    epilogue == Epilogue.GELU ? LinearGemmsTest::gelu : LinearGemmsTest::swiGlu;
            for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16)) {
                assertEquals(0, kernels(ONE_CLUSTER, type, epilogue, 382, function), "rows of the result");
            }
            var withoutTf32 = new LinearKernels(2, false);
            assertEquals(0, kernels(withoutTf32, DType.FLOAT32, epilogue, FEATURES, function), "TF32 not allowed");
        }
    }

    @Test
    void weightsThatAreStoredWith16BitsAreLeftToCublas() {
        assertNoKernel(
                ONE_CLUSTER,
                in -> gelu(cast(in[0]).mm(cast(in[1].neg()).t())),
                torch.randn(512, 640),
                torch.randn(FEATURES, 640));
    }

    @Test
    void programsThatOverwriteAnInputStayAsTheyAre() {
        TensorFunction function = in -> inScope(
                tensors -> {
                    Tensor product = swiGlu(tensors[0].mm(tensors[1].t()), tensors[0].mm(tensors[2].t()))[0];
                    tensors[0].zero_();
                    return new Tensor[] {product};
                },
                in);
        Program prepared = FusionPasses.prepare(
                Recorder.record(
                        function, torch.randn(512, 640), torch.randn(FEATURES, 640), torch.randn(FEATURES, 640)),
                CPU);
        assertSame(prepared, LinearGemms.of(prepared, ONE_CLUSTER));
    }
}
