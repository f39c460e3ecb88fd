package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.Precision;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.List;
import java.util.function.BinaryOperator;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GemmMergingTest extends ScopedTest {
    private static final Device CPU = Device.cpu();

    @BeforeEach
    void open() {
        Torch.seed(System.nanoTime());
    }

    private static long count(Program program, String operator) {
        return program.operations().stream()
                .map(Operation::operator)
                .filter(op -> op.toString().replaceFirst("\\[.*", "").equals(operator))
                .count();
    }

    private static Program prepared(TensorFunction function, Tensor... inputs) {
        Program recorded = Recorder.record(function, inputs);
        return FusionPasses.prepare(recorded, CPU);
    }

    /** Checks a merged and fused program against the function, with new inputs. */
    private static Program assertMerged(int gemms, TensorFunction function, Tensor... inputs) {
        Program fused = FusionPasses.fusePrepared(GemmMerging.of(prepared(function, inputs)), CPU);
        assertEquals(gemms, count(fused, "mm"), fused.toString());
        for (Tensor input : inputs) {
            input.normal_();
        }
        Tensor[] expected = function.apply(inputs);
        Tensor[] got = new Interpreter(fused).run(inputs);
        for (int i = 0; i < got.length; i++) {
            assertTrue(torch.allclose(expected[i], got[i], 1e-5, 1e-5, false), "output " + i + " of " + fused);
        }
        return fused;
    }

    private static Tensor[] squares(int count) {
        return Stream.generate(() -> torch.randn(4, 4)).limit(count).toArray(Tensor[]::new);
    }

    /** Returns a function of the negated inputs. */
    private static TensorFunction ofNegated(UnaryOperator<Tensor[]> function) {
        return in -> {
            try (var inner = MemoryScope.open()) {
                Tensor[] outputs =
                        function.apply(Arrays.stream(in).map(Tensor::neg).toArray(Tensor[]::new));
                return Arrays.stream(outputs).map(inner::escape).toArray(Tensor[]::new);
            }
        };
    }

    @ParameterizedTest
    @CsvSource({
        // Per layer: q, k and v, and w1 and w3 become one in the forward pass and for each of two gradients.
        "SPRING_2025, BF16, flash-deterministic, 45, 27",
        "SPRING_2025, BF16, sdpa, 45, 27",
        "SPRING_2024, BF16, flash-deterministic, 39, 27",
        // Separate weights in fp32 allow only the gradients of weights to be merged.
        "SPRING_2025, FP32, flash-deterministic, 45, 39"
    })
    void aStepHasFewerMatrixMultiplicationsAndMovesFewerBytes(
            ModelEdition edition, Precision precision, String attention, int before, int after) {
        TransformerConfig config = TransformerConfig.builder()
                .edition(edition)
                .vocabSize(40)
                .contextLength(32)
                .dModel(16)
                .numLayers(2)
                .numHeads(2)
                .dFf(24)
                .attention(attention)
                .build();
        try (var step = new LanguageModelStep(config, precision, CPU)) {
            Program recorded = step.record();
            MasterWeights weights = precision == Precision.BF16 ? step.masterWeights() : MasterWeights.NONE;
            Program separate = FusionPasses.fusePrepared(FusionPasses.prepare(recorded, CPU, weights), CPU);
            Program merged = FusionPasses.fuse(recorded, CPU, weights);
            assertEquals(before, count(separate, "mm"));
            assertEquals(after, count(merged, "mm"), merged.toString());
            for (boolean isShared : merged.sharedOutputs(false)) {
                assertFalse(isShared, "the gradients of weights are separate parts of one result");
            }
            assertEquals(0, count(merged, "cat"), "kernels store their results next to each other");
            assertTrue(merged.bytesMoved() < separate.bytesMoved(), merged.bytesMoved() + ", " + separate.bytesMoved());
            assertTrue(merged.operations().size() <= separate.operations().size() - (before - after));
        }
    }

    @Test
    void weightsThatAKernelCastsAreStoredNextToEachOther() {
        TensorFunction projections = in -> {
            try (var inner = MemoryScope.open()) {
                Tensor x = in[0].to(DType.FLOAT32.scalarType());
                Tensor first = torch.matmul(x, in[1].mul(in[1]).t());
                Tensor second = torch.matmul(x, in[2].neg().t());
                return new Tensor[] {inner.escape(first.mul(second)), inner.escape(second.exp())};
            }
        };
        Program fused = assertMerged(1, projections, torch.randn(6, 5), torch.randn(7, 5), torch.randn(7, 5));
        assertEquals(0, count(fused, "cat"));
    }

    @Test
    void oneOperandThatIsNoResultOfAKernelIsCopied() {
        TensorFunction gradients = in -> {
            try (var inner = MemoryScope.open()) {
                Tensor product = torch.mm(in[3], in[3]);
                return new Tensor[] {
                    inner.escape(torch.mm(in[0].neg().t(), in[2])),
                    inner.escape(torch.mm(in[1].exp().t(), in[2])),
                    inner.escape(torch.mm(product.t(), in[2]))
                };
            }
        };
        Program fused =
                assertMerged(2, gradients, torch.randn(8, 8), torch.randn(8, 8), torch.randn(8, 4), torch.randn(8, 8));
        assertEquals(0, count(fused, "cat"));
    }

    /** The kernel computes the operands once per row, not once per element, so it cannot store them as columns. */
    @Test
    void numbersPerRowAreConcatenatedAfterTheirKernel() {
        TensorFunction statistics = in -> {
            try (var inner = MemoryScope.open()) {
                Tensor mean = in[0].mean(new long[] {1}, true, new ScalarTypeOptional());
                Tensor first = torch.mm(mean.exp().t(), in[1]);
                Tensor second = torch.mm(mean.neg().t(), in[1]);
                return new Tensor[] {inner.escape(first.exp()), inner.escape(second.exp())};
            }
        };
        Program fused = assertMerged(1, statistics, torch.randn(8, 16), torch.randn(8, 4));
        assertEquals(1, count(fused, "cat"), fused.toString());
    }

    @Test
    void outputsAreNotMovedIntoALargerMatrix() {
        TensorFunction returned = in -> {
            try (var inner = MemoryScope.open()) {
                Tensor first = torch.mm(in[0], in[1].neg().t());
                Tensor second = torch.mm(in[0], in[2].neg().t());
                return new Tensor[] {inner.escape(first), inner.escape(second)};
            }
        };
        assertMerged(2, returned, torch.randn(6, 5), torch.randn(7, 5), torch.randn(7, 5));
    }

    @Test
    void aMatrixMultiplicationThatDependsOnAnotherStaysSeparate() {
        TensorFunction chain = in -> {
            try (var inner = MemoryScope.open()) {
                Tensor first = torch.mm(in[0].neg().t(), in[1]); // [4, 4]
                Tensor second = torch.mm(first.exp().t(), in[1]);
                return new Tensor[] {inner.escape(first), inner.escape(second)};
            }
        };
        assertMerged(2, chain, torch.randn(4, 4), torch.randn(4, 4));
    }

    /** Checks −A · −B + −C · −D in a program that also returns a function of −A and of −A · −B. */
    private static void assertSum(int gemms, BinaryOperator<Tensor> other) {
        TensorFunction sum = ofNegated(in -> {
            Tensor term = in[0].mm(in[1]);
            return new Tensor[] {term.add(in[2].mm(in[3])), other.apply(in[0], term)};
        });
        assertMerged(gemms, sum, squares(4));
    }

    @Test
    void onlyTermsThatNothingElseReadsAreMerged() {
        assertSum(2, (gradient, term) -> torch.mm(gradient, gradient)); // the sum is one of the two
        assertSum(2, (gradient, term) -> term);
        assertSum(2, (gradient, term) -> term.exp());
    }

    @Test
    void onlyOperandsThatNothingButMatrixMultiplicationsReadsAreMoved() {
        assertSum(2, (gradient, term) -> gradient);
        assertSum(2, (gradient, term) -> gradient.exp());
    }

    @Test
    void weightsOfEqualGradientsStaySeparate() {
        TensorFunction sums = ofNegated(in -> new Tensor[] {
            in[0].mm(in[1]).add(in[0].mm(in[2])), in[3].mm(in[4]).add(in[5].mm(in[6]))
        });
        Tensor[] inputs = squares(7);
        assertMerged(3, sums, inputs);
        assertEquals(2, count(GemmMerging.of(prepared(sums, inputs)), "cat"), "operands of the merged sum");
    }

    @Test
    void sumsThatMergingWouldChangeStaySeparate() {
        assertMerged(2, ofNegated(in -> new Tensor[] {in[0].mm(in[1]).add(in[2].mm(in[1]))}), squares(3));
        TensorFunction broadcast =
                ofNegated(in -> new Tensor[] {in[0].mm(in[1]).unsqueeze(1).add(in[2].mm(in[3]))});
        assertMerged(2, broadcast, squares(4));
    }

    @Test
    void anOperandIsMovedOnlyOnce() {
        TensorFunction gradients = ofNegated(in -> new Tensor[] {
            in[0].t().mm(in[3]),
            in[1].t().mm(in[3]),
            in[0].t().mm(in[4]),
            in[2].t().mm(in[4])
        });
        assertMerged(3, gradients, squares(5));
    }

    @Test
    void halfOfTheOperandsOrAnyRowsAreNotCopied() {
        TensorFunction gradients = ofNegated(
                in -> new Tensor[] {in[0].t().mm(in[1]), in[2].mm(in[2]).t().mm(in[1])});
        assertMerged(3, gradients, squares(3));
        TensorFunction projections = ofNegated(in -> new Tensor[] {
            in[0].mm(in[1].t()).exp(),
            in[0].mm(in[2].t()).exp(),
            in[0].mm(in[3].mm(in[3]).t()).exp()
        });
        assertMerged(4, projections, squares(4));
    }

    @Test
    void resultsThatWouldNotBeAlignedStaySeparate() {
        TensorFunction gradients =
                ofNegated(in -> new Tensor[] {in[0].t().mm(in[2]), in[1].t().mm(in[2])});
        assertMerged(1, gradients, torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 3));
        assertMerged(2, gradients, torch.randn(8, 5), torch.randn(8, 5), torch.randn(8, 3));
    }

    /** Checks exp(X · Wᵢᵀ) for two weights whose casts the optimizer has stored in these tensors. */
    private static void assertMergedWithStored(int gemms, Tensor... copies) {
        Tensor[] weights = squares(copies.length);
        TensorFunction layers = in -> Arrays.stream(weights)
                .map(weight ->
                        in[0].mm(weight.to(DType.BFLOAT16.scalarType()).t()).exp())
                .toArray(Tensor[]::new);
        MasterWeights stored = new MasterWeights() {
            @Override
            public List<Tensor> copies(List<String> names, DType dtype) {
                return List.of(copies);
            }
        };
        Tensor x = torch.randn(8, 4).to(DType.BFLOAT16.scalarType());
        Program prepared = FusionPasses.prepare(Recorder.record(layers, x), CPU, stored);
        Program merged = GemmMerging.of(prepared);
        assertEquals(gemms, count(merged, "mm"), merged.toString());
        Tensor[] got = new Interpreter(merged).run(x);
        for (int i = 0; i < got.length; i++) {
            assertTrue(torch.allclose(x.mm(copies[i].t()).exp(), got[i], 2e-2, 2e-2, false), "output " + i);
        }
    }

    @Test
    void onlyAdjacentWeightsOfOneStorageAreReadAsOne() {
        Tensor all = torch.randn(12, 4).to(DType.BFLOAT16.scalarType());
        assertMergedWithStored(1, all.narrow(0, 4, 4), all.narrow(0, 0, 4));
        assertMergedWithStored(2, all.narrow(0, 0, 4), all.narrow(0, 8, 4));
        Tensor next = all.narrow(0, 4, 4);
        Tensor otherStorage = torch.from_blob(next.data_ptr(), new long[] {4, 4}, all.options());
        assertMergedWithStored(2, all.narrow(0, 0, 4), otherStorage);
    }
}
