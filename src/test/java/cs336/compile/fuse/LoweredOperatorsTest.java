package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Argument.View;
import cs336.compile.program.DispatchedOperator;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Operator;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.NoGradTest;
import cs336.torch.Tensors;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.Test;

/** Operators whose dtype, shape or numbers a lowering rule must treat separately. */
class LoweredOperatorsTest extends NoGradTest {
    private static final long ABOVE_FLOAT = (1L << 24) + 1; // the smallest integer that fp32 does not represent
    private static final int MEAN = 1; // PyTorch's code of the reduction of a loss
    private static final long FAR_ABOVE_DOUBLE = (1L << 60) + 1; // the next double is 127 larger
    private static final long ABOVE_INT = (1L << 40) + 1;

    /**
     * Checks that the program after each pass computes exactly what the function does, and that its kernels compile.
     */
    private static void assertComputes(TensorFunction function, Tensor... inputs) {
        Tensor[] expected = function.apply(inputs);
        Program recorded = Recorder.record(function, inputs);
        Map<String, Program> stages = FusionPasses.stages(recorded, Device.cpu());
        stages.forEach((stage, program) -> {
            Tensor[] got = new Interpreter(program).run(inputs);
            for (int i = 0; i < expected.length; i++) {
                assertEquals(DType.of(expected[i]), DType.of(got[i]), stage + ", output " + i);
                assertTrue(torch.equal(expected[i], got[i]), stage + ", output " + i + "\n" + program);
            }
        });
        FusionPasses.kernels(stages.get("fused")).stream()
                .map(kernel -> KernelSource.of(FusedKernel.FILE, kernel.source()))
                .forEach(source -> KernelCompiler.shared().compile(source, Map.of(), GpuArchitecture.parse("sm_90a")));
    }

    @Test
    void operationsOnAnotherDeviceAreNotLowered() {
        Program recorded = Recorder.record(in -> new Tensor[] {in[0].exp()}, torch.randn(3));
        assertTrue(operator(recorded) instanceof PointwiseOperator);
        Program elsewhere = recorded.withOperations(recorded.operations().stream()
                .map(exp -> exp.withViews(view -> new View(
                        new ProgramValue(recorded.size(), "x", view.layout(), DeviceKind.CUDA), view.layout())))
                .toList());
        assertTrue(operator(elsewhere) instanceof DispatchedOperator);
    }

    private static Operator operator(Program recorded) {
        return Lowering.of(recorded, Device.cpu()).operations().get(0).operator();
    }

    private static Tensor integers(DType dtype, long... values) {
        return Tensors.of(values, values.length).to(dtype.scalarType());
    }

    @Test
    void aMeanWithoutTheReducedDimensionIsLowered() {
        Tensor x = torch.arange(new Scalar(24)).to(DType.FLOAT32.scalarType()).reshape(2, 3, 4);
        for (long[] dims : new long[][] {{0}, {1}, {-1}, {0, 2}, {0, 1, 2}}) {
            assertComputes(in -> new Tensor[] {in[0].mean(dims, false, new ScalarTypeOptional())}, x);
            assertComputes(in -> new Tensor[] {in[0].mean(dims, false, new ScalarTypeOptional())}, x.transpose(0, 2));
        }
    }

    @Test
    void integersKeepAllBits() {
        TensorFunction function = in -> new Tensor[] {
            in[0].clone().contiguous(),
            in[0].neg(),
            in[0].abs(),
            torch.maximum(in[0], in[1]),
            torch.minimum(in[0], in[1]),
            torch.where(in[0].gt(in[1]), in[0], in[1]),
            torch.relu(in[0]),
            in[0].to(DType.INT64.scalarType()),
            in[0].square()
        };
        for (DType dtype : new DType[] {DType.INT64, DType.INT32}) {
            long large = dtype == DType.INT64 ? ABOVE_INT : ABOVE_FLOAT;
            assertComputes(function, integers(dtype, large, -large, large - 1), integers(dtype, large - 1, 7, large));
        }
        assertComputes(function, integers(DType.UINT8, 0, 1, 255), integers(DType.UINT8, 1, 128, 0));
    }

    @Test
    void integersAreComparedExactly() {
        for (DType dtype : new DType[] {DType.INT64, DType.INT32}) {
            assertComputes(
                    in -> new Tensor[] {in[0].lt(in[1]), in[0].eq(in[1]), in[0].eq(new Scalar(ABOVE_FLOAT))},
                    integers(dtype, ABOVE_FLOAT - 1, ABOVE_FLOAT, ABOVE_FLOAT),
                    integers(dtype, ABOVE_FLOAT, ABOVE_FLOAT, ABOVE_FLOAT - 1));
        }
    }

    @Test
    void integersAreComparedWithFractions() {
        assertComputes(
                in -> new Tensor[] {in[0].lt(new Scalar(2.5)), in[0].ge(in[1]), in[1].gt(in[0])},
                integers(DType.INT64, 1, 2, 3),
                Tensors.of(new float[] {0.5f, 2.5f, 3.5f}, 3));
    }

    @Test
    void numbersMayBeTooLargeForTheDtype() {
        assertComputes(
                in -> new Tensor[] {
                    in[0].add(new Scalar(1e300)).reciprocal(),
                    in[0].mul(new Scalar(-1e300)),
                    in[0].lt(new Scalar(1e300)),
                    in[0].mul(new Scalar(1e-300))
                },
                Tensors.of(new float[] {1, -2, 3}, 3));
    }

    @Test
    void operandsAreCastToTheirCommonDtype() {
        TensorFunction function = in -> new Tensor[] {
            in[0].mul(in[1]), in[0].add(in[1], new Scalar(2.0)), in[0].lt(in[1]), in[0].ge(in[2]), in[0].sub(in[2])
        };
        Tensor halves = Tensors.of(new float[] {0.1f, 0.5f, 2048, 3}, DType.FLOAT16, 4);
        Tensor large = integers(DType.INT64, 100_000, 100_000, 2049, 70_000); // no fp16 numbers
        assertComputes(function, halves, large, torch.scalar_tensor(new Scalar(1e6)));
        assertComputes(
                in -> new Tensor[] {in[0].eq(in[1]), in[0].lt(in[1])},
                Tensors.of(new float[] {0.1f, 0.2f}, 2),
                Tensors.of(new double[] {0.1}));
    }

    @Test
    void integersWrapAroundInTheCommonDtype() {
        Tensor bytes = integers(DType.UINT8, 0, 1, 254, 255);
        assertComputes(
                in -> new Tensor[] {
                    in[0].gt(new Scalar(-1L)),
                    in[0].eq(new Scalar(-2L)),
                    torch.maximum(in[0], in[1]),
                    torch.minimum(in[1], in[0]),
                    in[0].ge(in[1])
                },
                bytes,
                integers(DType.INT64, -3).select(0, 0));
    }

    @Test
    void largeNumbersAreExact() {
        assertComputes(
                in -> new Tensor[] {
                    in[0].eq(new Scalar(FAR_ABOVE_DOUBLE)),
                    in[0].gt(new Scalar(FAR_ABOVE_DOUBLE - 1)),
                    in[0].ne(new Scalar(Long.MIN_VALUE))
                },
                integers(DType.INT64, FAR_ABOVE_DOUBLE, FAR_ABOVE_DOUBLE - 1, Long.MIN_VALUE, Long.MIN_VALUE + 1));
    }

    @Test
    void widenedNumbersAreComparedInFp64() {
        assertComputes(
                in -> {
                    Tensor wide = in[0].to(DType.FLOAT64.scalarType());
                    return new Tensor[] {wide.gt(new Scalar(0.1)), wide.lt(new Scalar(0.2)), wide.eq(new Scalar(0.1))};
                },
                Tensors.of(new float[] {0.1f, 0.2f}, 2));
    }

    @Test
    void castsBetween16BitTypesRound() {
        DType[] narrow = {DType.BFLOAT16, DType.FLOAT16};
        for (int i = 0; i < 2; i++) {
            ScalarType other = narrow[1 - i].scalarType();
            Tensor x = torch.randn(50).mul(new Scalar(1e5)).to(narrow[i].scalarType()); // fp16 overflows above 65504
            assertComputes(
                    in -> new Tensor[] {in[0].to(other).to(ScalarType.Float).mul(new Scalar(2))}, x);
        }
    }

    @Test
    void numbersThatA16BitTypeDoesNotRepresentAreComparedAfterRounding() {
        double[] numbers = {256, 257, 258, 0.1, 2049};
        for (DType dtype : new DType[] {DType.BFLOAT16, DType.FLOAT16}) {
            Tensor x = Tensors.of(numbers, numbers.length).to(dtype.scalarType());
            for (double number : numbers) {
                var scalar = new Scalar(number);
                assertComputes(in -> new Tensor[] {in[0].eq(scalar), in[0].lt(scalar), in[0].ge(scalar)}, x);
            }
        }
    }

    @Test
    void anInputThatIsOverwrittenChangesInEveryStage() {
        TensorFunction function = in -> new Tensor[] {in[0].mul_(in[1]).add(in[1])};
        Tensor x = torch.randn(3, 4);
        Tensor y = torch.randn(3, 4);
        Program recorded = Recorder.record(function, x.clone(), y);
        Tensor product = x.mul(y);
        FusionPasses.stages(recorded, Device.cpu()).forEach((stage, program) -> {
            Tensor overwritten = x.clone();
            Tensor sum = new Interpreter(program).run(overwritten, y)[0];
            assertTrue(torch.equal(product, overwritten), stage + "\n" + program);
            assertTrue(torch.equal(product.add(y), sum), stage + "\n" + program);
        });
    }

    @Test
    void aWriteToAnInputHappensInEveryStageIfNothingReadsIt() {
        TensorFunction function = in -> {
            in[0].mul_(in[1]);
            return new Tensor[] {in[1].neg()};
        };
        Tensor x = torch.randn(3, 4);
        Tensor y = torch.randn(3, 4);
        Program recorded = Recorder.record(function, x.clone(), y);
        FusionPasses.stages(recorded, Device.cpu()).forEach((stage, program) -> {
            Tensor overwritten = x.clone();
            new Interpreter(program).run(overwritten, y);
            assertTrue(torch.equal(x.mul(y), overwritten), stage + "\n" + program);
        });
    }

    @Test
    void aCopyKeepsWhatIsOverwrittenLater() {
        TensorFunction function = in -> {
            Tensor y = in[0].matmul(in[1]);
            Tensor copy = y.clone();
            y.select(1, 2).zero_();
            return new Tensor[] {copy, y};
        };
        assertComputes(function, torch.randn(4, 4), torch.randn(4, 4));
    }

    @Test
    void copiesOfPairsAreReadAsComplexNumbers() {
        TensorFunction function = in -> {
            Tensor z = torch.view_as_complex(in[0].clone());
            return new Tensor[] {torch.view_as_real(z.exp())};
        };
        assertComputes(function, torch.randn(5, 2));
    }

    /** The first write becomes an operation with a new output, in which the second one writes a column. */
    @Test
    void aWriteToAPartFollowsAWriteToTheWhole() {
        TensorFunction function = in -> {
            Tensor y = in[0].exp().add_(in[1]);
            y.select(1, 2).zero_();
            return new Tensor[] {y, y.mul(in[1])};
        };
        assertComputes(function, torch.randn(3, 4), torch.randn(3, 4));
    }

    /** A kernel reduces rows in one pass; over other dimensions each reduction would be an operation of its own. */
    @Test
    void aSoftmaxOverColumnsStaysAsItIs() {
        for (boolean isLog : new boolean[] {false, true}) {
            TensorFunction function = in -> {
                Tensor leaf = in[0].detach().set_requires_grad(true);
                GradMode.set_enabled(true);
                try {
                    Tensor y = isLog ? torch.log_softmax(leaf, 0) : torch.softmax(leaf, 0);
                    return new Tensor[] {y.detach(), Backward.of(y).with(in[1]).gradients(leaf)[0]};
                } finally {
                    GradMode.set_enabled(false);
                }
            };
            Program recorded = Recorder.record(function, torch.randn(3, 4), torch.randn(3, 4));
            assertEquals(
                    recorded.toString(), Lowering.of(recorded, Device.cpu()).toString());
        }
    }

    /** An optimizer's copy is that of a whole parameter. */
    @Test
    void aCastOfAPartOfAParameterStaysACast() {
        Tensor w = torch.randn(6, 4);
        Tensor x = torch.randn(2, 4).to(ScalarType.BFloat16);
        TensorFunction function =
                in -> new Tensor[] {in[0].mul(w.narrow(0, 2, 2).to(ScalarType.BFloat16))};
        var weights = new MasterWeights() {
            @Override
            public List<Tensor> copies(List<String> names, DType dtype) {
                return names.equals(List.of("w")) ? List.of(w.to(dtype.scalarType())) : null;
            }
        };
        Program recorded = Recorder.run(function, Map.of("w", w), x).program();
        Program fused = FusionPasses.fuse(recorded, Device.cpu(), weights);
        assertTrue(torch.equal(function.apply(x)[0], new Interpreter(fused).run(x)[0]), fused.toString());
    }

    /** An optimizer that reads 16-bit gradients gets the part of the cast, not the whole argument of the cast. */
    @Test
    void aPartOfACastStaysAPart() {
        var weights = new MasterWeights() {
            @Override
            public boolean readsNarrowGradients() {
                return true;
            }
        };
        TensorFunction function =
                in -> new Tensor[] {in[0].neg().to(ScalarType.Float).select(0, 1)};
        Tensor x = torch.randn(3, 4).to(ScalarType.BFloat16);
        Program fused = FusionPasses.fuse(Recorder.record(function, x), Device.cpu(), weights);
        Tensor got = new Interpreter(fused).run(x)[0].to(ScalarType.Float);
        assertTrue(torch.equal(function.apply(x)[0], got), fused.toString());
    }

    @Test
    void aWriteWaitsForEarlierReads() {
        TensorFunction function = in -> {
            Tensor y = in[0].matmul(in[0]);
            Tensor doubled = y.mul(new Scalar(2)); // with the sum below one kernel, which ends after the write
            y.select(0, 1).zero_();
            return new Tensor[] {doubled.add(in[1]), y};
        };
        assertComputes(function, torch.randn(4, 4), torch.randn(4, 4));
    }

    @Test
    void integersAreComparedWithNumbersBeyondTheirRange() {
        Tensor x = integers(DType.INT64, Long.MIN_VALUE, -1, 0, 7, Long.MAX_VALUE);
        for (double number : new double[] {1e300, -1e300, 1e19}) {
            var scalar = new Scalar(number);
            assertComputes(in -> new Tensor[] {in[0].lt(scalar), in[0].ge(scalar), in[0].eq(scalar)}, x);
        }
    }

    @Test
    void aRecomputationDoesNotReadWhatWasOverwritten() {
        TensorFunction function = in -> {
            Tensor y = in[0].matmul(in[1]);
            Tensor rows = y.expand(4, 4).mul(new Scalar(2)); // cheaper to compute from y than to load
            Tensor product = rows.matmul(in[1]);
            y.select(1, 1).zero_();
            return new Tensor[] {rows.add(product), y};
        };
        assertComputes(function, torch.randn(1, 4), torch.randn(4, 4));
    }

    @Test
    void theSecondTermOfASumIsScaled() {
        for (DType dtype : new DType[] {DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16}) {
            Tensor x = torch.randn(5, 3).to(dtype.scalarType());
            Tensor y = torch.randn(5, 3).to(dtype.scalarType());
            for (double alpha : new double[] {2, -1, 0.5}) { // products with them are exact
                var scale = new Scalar(alpha);
                assertComputes(in -> new Tensor[] {in[0].add(in[1], scale), in[0].sub(in[1], scale)}, x, y);
            }
        }
    }

    @Test
    void reductionsOfOneNumberStayAsTheyAre() {
        assertComputes(
                in -> new Tensor[] {
                    torch.softmax(in[0], 0),
                    torch.log_softmax(in[0], -1),
                    in[0].sum(new long[] {0}, true, new ScalarTypeOptional()),
                    in[0].mean(new long[] {-1}, false, new ScalarTypeOptional())
                },
                torch.scalar_tensor(new Scalar(3.0)));
    }

    /** The ignored index marks rows, whether it is a column or not. */
    @Test
    void rowsWithTheIgnoredIndexDoNotCount() {
        Tensor targets = integers(DType.INT64, 0, 2, 1, 2);
        for (long ignored : new long[] {-100, 0, 2, 3}) {
            TensorFunction loss = in -> {
                Tensor leaf = in[0].detach().set_requires_grad(true);
                GradMode.set_enabled(true);
                try {
                    Tensor value = torch.cross_entropy_loss(leaf, targets, new TensorOptional(), MEAN, ignored, 0.0);
                    return new Tensor[] {value.detach(), Backward.of(value).gradients(leaf)[0]};
                } finally {
                    GradMode.set_enabled(false);
                }
            };
            Tensor x = torch.randn(4, 3);
            Tensor[] expected = loss.apply(x);
            FusionPasses.stages(Recorder.record(loss, x), Device.cpu()).forEach((stage, program) -> {
                Tensor[] got = new Interpreter(program).run(x);
                for (int i = 0; i < expected.length; i++) {
                    assertTrue(torch.allclose(expected[i], got[i]), stage + ", ignored " + ignored + ", output " + i);
                }
            });
        }
    }
}
