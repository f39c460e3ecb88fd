package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.trace.TensorFunction;
import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.DoubleComplex;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Calls of compiled functions in which a recording could be stale, have a second effect or be impossible. */
class CompiledEdgeCasesTest extends ScopedTest {
    private static Tensor tensor(double... values) {
        return Tensors.of(values, values.length);
    }

    private static Tensor trainable(double... values) {
        return tensor(values).set_requires_grad(true);
    }

    private static double[] gradient(Tensor of, Tensor input) {
        return Tensors.toDoubles(Backward.of(of.sum()).gradients(input)[0]);
    }

    @Test
    void aClosedParameterIsNamedInsteadOfANullPointer() {
        Tensor x = tensor(1, 2);
        Tensor weight = trainable(3, 4);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)}, List.of(weight))) {
            compiled.apply(x);
            weight.close();
            var e = assertThrows(IllegalStateException.class, () -> compiled.apply(x));
            assertEquals("a parameter of this compiled function is closed", e.getMessage());
        }
    }

    @Test
    void anOperatorWithAnUnsupportedDtypeIsNamed() {
        Tensor x = torch.randn(3, 2).to(torch.ScalarType.Double);
        for (boolean isTrainable : new boolean[] {false, true}) {
            String message = Refusal.of(
                    in -> new Tensor[] {
                        torch.view_as_real(torch.view_as_complex(in[0]).mul(in[0].select(1, 0)))
                    },
                    x.clone().set_requires_grad(isTrainable));
            assertTrue(message.contains("mul.Tensor reads or returns"), message);
            assertTrue(message.contains("dtype ComplexDouble, called at CompiledEdgeCasesTest.java:"), message);
        }
    }

    @Test
    void anInputWithAnUnsupportedDtypeIsNamed() {
        Tensor x = torch.randn(3).to(torch.ScalarType.ComplexDouble);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].add(in[1])})) {
            String message = assertThrows(IllegalArgumentException.class, () -> compiled.apply(tensor(1, 2, 3), x))
                    .getMessage();
            assertEquals("input 1: tensor has the unsupported dtype ComplexDouble", message);
        }
    }

    @Test
    void anInputMayBeAParameterInOneCallOnly() {
        Tensor weight = tensor(1, 2);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)}, List.of(weight))) {
            assertArrayEquals(new double[] {1, 4}, Tensors.toDoubles(compiled.apply(weight)[0]));
            assertArrayEquals(new double[] {3, 6}, Tensors.toDoubles(compiled.apply(tensor(3, 3))[0]));
            assertArrayEquals(new double[] {1, 4}, Tensors.toDoubles(compiled.apply(weight)[0]));
            assertEquals(2, compiled.recordings());
        }
    }

    /** {@code cat} reads a list of tensors, and {@code _foreach_add} reads and returns one. */
    @Test
    void operatorsMayReadAndReturnLists() {
        AtenOperator add = AtenOperator.of("aten::_foreach_add", "Scalar");
        TensorFunction function = in -> {
            try (var list = TensorList.of(List.of(in[0], in[0].mul(in[1])))) {
                return new Tensor[] {
                    torch.cat(new TensorVector(add.call(list, 1.0).toArray(new Tensor[0])), 0)
                };
            }
        };
        try (var compiled = Compiled.of(function)) {
            for (double x : new double[] {2, 3, 4}) {
                assertArrayEquals(
                        new double[] {x + 1, 10 * x + 1}, Tensors.toDoubles(compiled.apply(tensor(x), tensor(10))[0]));
            }
            for (double x : new double[] {2, 3, 4}) {
                Tensor leaf = trainable(x);
                Tensor y = compiled.apply(leaf, tensor(10))[0];
                assertArrayEquals(new double[] {x + 1, 10 * x + 1}, Tensors.toDoubles(y));
                assertArrayEquals(
                        new double[] {11},
                        Tensors.toDoubles(Backward.of(y.sum()).gradients(leaf)[0]));
            }
        }
    }

    @Test
    void aCompiledFunctionMayCallAnotherOne() {
        TensorFunction exponential = in -> new Tensor[] {in[0].exp()};
        for (boolean isRecordedBefore : new boolean[] {false, true}) {
            try (var inner = Compiled.of(exponential);
                    var outer = Compiled.of(in -> new Tensor[] {inner.apply(in[0])[0].mul(in[0])})) {
                if (isRecordedBefore) {
                    inner.apply(tensor(0));
                    inner.apply(trainable(0));
                }
                for (double x : new double[] {0, 1, 2}) {
                    assertEquals(x * Math.exp(x), outer.apply(tensor(x))[0].item_double(), 1e-12);
                    Tensor leaf = trainable(x);
                    double[] gradient = gradient(outer.apply(leaf)[0], leaf);
                    assertArrayEquals(new double[] {(1 + x) * Math.exp(x)}, gradient, 1e-12);
                }
            }
        }
    }

    @Test
    void parametersMayBeFrozenAndUnfrozen() {
        Tensor weight = trainable(1, 2);
        Tensor bias = tensor(3, 4);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight).add(bias)}, List.of(weight, bias))) {
            Tensor x = tensor(5, 6);
            assertArrayEquals(new double[] {5, 6}, gradient(compiled.apply(x)[0], weight));
            bias.set_requires_grad(true);
            assertArrayEquals(new double[] {1, 1}, gradient(compiled.apply(x)[0], bias));
            weight.set_requires_grad(false);
            assertArrayEquals(new double[] {1, 1}, gradient(compiled.apply(x)[0], bias));
            assertEquals(3, compiled.recordings());
        }
    }

    @Test
    void aFunctionWithGradientsWritesToTensorsOnce() {
        Tensor captured = tensor(0);
        TensorFunction counts = in -> {
            in[1].add_(new Scalar(1.0));
            captured.add_(new Scalar(1.0));
            return new Tensor[] {in[0].mul(new Scalar(2.0))};
        };
        try (var compiled = Compiled.of(counts)) {
            Tensor input = tensor(0);
            for (int call = 1; call < 4; call++) {
                Tensor x = trainable(1, 2);
                assertArrayEquals(new double[] {2, 2}, gradient(compiled.apply(x, input)[0], x));
                assertEquals(call, input.item_double());
                assertEquals(call, captured.item_double());
            }
        }
    }

    @Test
    void outputsMayBeAbsentOrWithoutGradient() {
        TensorFunction function = in -> new Tensor[] {null, in[0].argmax(), in[0].exp(), in[0].square()};
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 2; call++) {
                Tensor x = trainable(0, 1);
                Tensor unused = trainable(1);
                Tensor[] y = compiled.apply(x, unused);
                assertNull(y[0]);
                assertEquals(1, y[1].item_long());
                Tensor[] gradients = Backward.of(y[2].sum(), y[3].sum()).gradients(x, unused);
                assertArrayEquals(new double[] {1, Math.E + 2}, Tensors.toDoubles(gradients[0]), 1e-12);
                assertNull(gradients[1]);
            }
        }
    }

    @Test
    void tensorsOfJavaArraysKeepTheirValues() {
        TensorFunction function = in -> {
            Tensor sum = Tensors.of(new double[] {7, 8}, 2);
            return new Tensor[] {sum.add_(in[0])};
        };
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 4; call++) {
                assertArrayEquals(new double[] {8, 10}, Tensors.toDoubles(compiled.apply(tensor(1, 2))[0]));
            }
        }
    }

    @Test
    void readingElementsInJavaIsRefused() {
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(new Scalar(Tensors.toDoubles(in[0])[0]))})) {
            String message = assertThrows(IllegalStateException.class, () -> compiled.apply(tensor(2)))
                    .getMessage();
            assertTrue(
                    message.startsWith("the function cannot be recorded: it reads elements of a tensor on the host,"
                            + " called at CompiledEdgeCasesTest.java:"),
                    message);
            assertArrayEquals(new double[] {2}, Tensors.toDoubles(tensor(2))); // allowed again after the exception
        }
    }

    @Test
    void orPlainCallsAFunctionThatReadsElementsInJava() {
        for (boolean isTrainable : new boolean[] {false, true}) {
            try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(new Scalar(Tensors.toDoubles(in[0])[0]))})
                    .orPlain()) {
                for (int call = 0; call < 3; call++) {
                    Tensor x = torch.randn(4).set_requires_grad(isTrainable);
                    double[] values = Tensors.toDoubles(x);
                    double[] expected =
                            Arrays.stream(values).map(v -> v * values[0]).toArray();
                    assertArrayEquals(expected, Tensors.toDoubles(compiled.apply(x)[0]), 1e-6);
                }
                assertEquals(0, compiled.recordings());
            }
        }
    }

    @Test
    void shapesThatDependOnElementsAreRefused() {
        Tensor ids = Tensors.of(new long[] {1, 1, 2}, 3);
        String bins = Refusal.of(in -> new Tensor[] {torch.bincount(in[0])}, ids);
        assertTrue(bins.contains("the shape of the result of bincount depends on elements of a tensor"), bins);
        assertTrue(bins.contains("called at CompiledEdgeCasesTest.java:"), bins);
        String unique =
                Refusal.of(in -> new Tensor[] {torch.unique_consecutive(in[0]).get0()}, ids);
        assertTrue(unique.contains("unique_consecutive"), unique);
    }

    @Test
    void complexNumbersAreToldApart() {
        TensorFunction function = in -> new Tensor[] {
            torch.view_as_real(torch.view_as_complex(in[0]).mul(new Scalar(new DoubleComplex(0, 1)))),
            torch.view_as_real(torch.view_as_complex(in[0]).mul(new Scalar(new DoubleComplex(2, 0))))
        };
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 2; call++) {
                Tensor[] y = compiled.apply(Tensors.of(new float[] {3, 4}, 1, 2));
                assertArrayEquals(new double[] {-4, 3}, Tensors.toDoubles(y[0]));
                assertArrayEquals(new double[] {6, 8}, Tensors.toDoubles(y[1]));
            }
        }
    }

    @Test
    void viewsWithAnotherDtypeAreRefused() {
        TensorFunction bits = in -> new Tensor[] {in[0].view(DType.INT64.scalarType())};
        String message = Refusal.of(bits, tensor(1));
        assertTrue(message.contains("a view of fp64 as int64 cannot be recorded"), message);
    }

    /** The kernel of a bilinear layer calls matrix multiplications, which autocast casts. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aBilinearLayerComputesInTheDtypeOfAutocast(boolean isTrainable) {
        Tensor weight = torch.randn(3, 6, 5).set_requires_grad(isTrainable);
        TensorFunction function = in -> {
            try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                return new Tensor[] {torch.bilinear(in[0], in[1], weight)};
            }
        };
        try (var compiled = Compiled.of(function, List.of(weight))) {
            for (int call = 0; call < 3; call++) {
                Tensor[] inputs = {torch.randn(4, 6), torch.randn(4, 5)};
                Tensor expected = function.apply(inputs)[0];
                Tensor actual = compiled.apply(inputs)[0];
                assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(actual));
                if (isTrainable) {
                    assertArrayEquals(gradient(expected, weight), gradient(actual, weight));
                }
            }
        }
    }

    @Test
    void aBilinearLayerWithGradientsIsCompiled() {
        Tensor weight = torch.randn(3, 6, 5).set_requires_grad(true);
        try (var compiled = Compiled.of(in -> new Tensor[] {torch.bilinear(in[0], in[1], weight)}, List.of(weight))) {
            compiled.apply(torch.randn(4, 6), torch.randn(4, 5));
            assertEquals(1, compiled.recordings());
        }
    }

    @Test
    void refusalsOfLayersNameTheOperatorAndAnAlternative() {
        Tensor weights = torch.rand(6);
        TensorFunction loss =
                in -> new Tensor[] {torch.cross_entropy_loss(in[0], in[1], new TensorOptional(weights), 1, -100, 0.1)};
        String message = Refusal.of(loss, torch.randn(4, 6), torch.arange(new Scalar(4)));
        assertTrue(
                message.contains("masked_select reads elements of a tensor on the host, as cross-entropy with class"
                        + " weights, label smoothing and a mean does; use its sum, called at"),
                message);
        TensorFunction ctc =
                in -> new Tensor[] {torch.ctc_loss(in[0], in[1], new long[] {10, 10}, new long[] {3, 3}, 0, 1, false)};
        message = Refusal.of(
                ctc, torch.randn(10, 2, 5).log_softmax(2), torch.ones(2, 3).to(torch.ScalarType.Long));
        assertTrue(
                message.contains(
                        "the result of _ctc_loss depends on elements of a tensor; call it outside of the function"),
                message);
    }

    @Test
    void elementsThatAreWrittenWithoutTheDispatcherAreRefused() {
        String reason = " depends on elements that are written without PyTorch's dispatcher, as torch.tensor does, and"
                + " max_pool1d on the CPU; torch.full and max_pool2d do not";
        Tensor captured = tensor(1);
        Tensor x = torch.randn(2, 3, 8);
        for (TensorFunction function : List.<TensorFunction>of(
                in -> new Tensor[] {torch.max_pool1d(in[0], 2)},
                in -> new Tensor[] {torch.max_pool1d(in[0], 2).exp()},
                in -> new Tensor[] {torch.tensor(2.0)},
                in -> new Tensor[] {torch.tensor(2.0).add_(in[0].sum())},
                in -> new Tensor[] {torch.empty(2, 3)})) {
            String message = Refusal.of(function, x);
            assertTrue(message.startsWith("the function cannot be recorded: output 0" + reason), message);
        }
        String message = Refusal.of(in -> new Tensor[] {captured.mul_(torch.tensor(2.0))}, x);
        assertTrue(message.startsWith("the function cannot be recorded: a tensor outside of it" + reason), message);
    }

    @Test
    void emptyTensorsMayBeWrittenToOrServeAsTemplates() {
        TensorFunction function = in -> {
            Tensor empty = torch.empty(2);
            empty.select(0, 0).copy_(in[0]);
            empty.select(0, 1).fill_(new Scalar(3.0));
            return new Tensor[] {empty.mul(torch.ones_like(torch.empty(2)))};
        };
        try (var compiled = Compiled.of(function)) {
            for (double x : new double[] {1, 2, 4}) {
                assertArrayEquals(
                        new double[] {x, 3},
                        Tensors.toDoubles(compiled.apply(tensor(x).squeeze())[0]));
            }
        }
    }

    @Test
    void anInversePermutationMayBeWrittenToAnEmptyTensor() {
        TensorFunction sortAndUndo = in -> {
            Tensor order = in[0].argsort();
            Tensor places = torch.arange(new Scalar(4), order.options());
            Tensor inverse = torch.empty_like(order).scatter_(0, order, places);
            Tensor same = torch.empty_like(order).index_copy_(0, order, places);
            Tensor sorted = in[0].index_select(0, order);
            return new Tensor[] {sorted.index_select(0, inverse), sorted.index_select(0, same)};
        };
        try (var compiled = Compiled.of(sortAndUndo)) {
            for (int call = 0; call < 3; call++) {
                Tensor x = torch.randn(4);
                for (Tensor result : compiled.apply(x)) {
                    assertArrayEquals(Tensors.toDoubles(x), Tensors.toDoubles(result));
                }
            }
        }
    }

    @Test
    void aStorageAsArgumentIsRefused() {
        String message = Refusal.of(in -> new Tensor[] {torch.set(in[0], in[1].storage())}, tensor(1), tensor(2));
        assertTrue(message.contains("set.source_Storage has an argument that cannot be recorded"), message);
    }

    @Test
    void anOutputOfAnInnerLeafIsRefused() {
        for (TensorFunction function : List.<TensorFunction>of(
                in -> new Tensor[] {in[0].mul(in[0].detach().clone().set_requires_grad(true))},
                in -> new Tensor[] {in[0].clone().set_requires_grad(true)})) {
            try (var compiled = Compiled.of(function)) {
                String message = assertThrows(IllegalStateException.class, () -> compiled.apply(tensor(1, 2)))
                        .getMessage();
                assertEquals("an output requires a gradient for a tensor that the function creates", message);
            }
        }
    }

    @Test
    void withGradModeOffInputsParametersAndViewsOfThemMayBeOutputs() {
        Tensor input = tensor(1, 2).set_requires_grad(true);
        Tensor parameter = tensor(3, 4).set_requires_grad(true);
        TensorFunction function = in -> new Tensor[] {in[0], in[0].view(2, 1), parameter, parameter.view(1, 2)};
        try (var compiled = Compiled.of(function, List.of(parameter))) {
            for (int call = 0; call < 3; call++) {
                Tensor[] outputs;
                try (var noGrad = NoGrad.open()) {
                    outputs = compiled.apply(input);
                }
                for (int i = 0; i < outputs.length; i++) {
                    assertFalse(outputs[i].requires_grad(), "output " + i);
                    assertArrayEquals(i < 2 ? new double[] {1, 2} : new double[] {3, 4}, Tensors.toDoubles(outputs[i]));
                }
                Tensor[] gradients = Backward.of(compiled.apply(input)[1].sum()).gradients(input);
                assertArrayEquals(new double[] {1, 1}, Tensors.toDoubles(gradients[0]));
            }
            assertEquals(2, compiled.recordings());
        }
    }

    @Test
    void anOutputThatTheFunctionGivesAGradientIsRefusedWithGradModeOff() {
        Tensor input = tensor(1, 2).set_requires_grad(true);
        TensorFunction function = in -> {
            GradMode.set_enabled(true);
            try {
                return new Tensor[] {in[0].exp()};
            } finally {
                GradMode.set_enabled(false);
            }
        };
        try (var compiled = Compiled.of(function);
                var noGrad = NoGrad.open()) {
            String message = assertThrows(IllegalStateException.class, () -> compiled.apply(input))
                    .getMessage();
            assertEquals("an output requires a gradient for a tensor that the function creates", message);
        }
    }

    @Test
    void anInputWhoseRequiresGradChangesIsRefused() {
        String message = Refusal.of(
                in -> {
                    in[0].set_requires_grad(true);
                    return new Tensor[] {in[0].detach().exp()};
                },
                tensor(1, 2));
        assertEquals("the function cannot be recorded: it changes requires_grad of input 0", message);
    }

    @Test
    void missingOutputsAreNamed() {
        for (Tensor x : List.of(tensor(1), trainable(1))) {
            assertEquals(
                    "the function cannot be recorded: it returns null instead of an array", Refusal.of(in -> null, x));
            assertEquals(
                    "the function cannot be recorded: output 1 is an undefined tensor",
                    Refusal.of(in -> new Tensor[] {in[0].exp(), new Tensor()}, x));
        }
    }

    @Test
    void aLostGradientIsRefused() {
        Tensor weight = trainable(3, 4);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)})) {
            for (int call = 0; call < 2; call++) {
                String message = assertThrows(IllegalStateException.class, () -> compiled.apply(tensor(1, 2)))
                        .getMessage();
                assertTrue(message.startsWith("the function reads a tensor of shape [2] that requires"), message);
                try (var noGrad = NoGrad.open()) {
                    assertArrayEquals(new double[] {3, 8}, Tensors.toDoubles(compiled.apply(tensor(1, 2))[0]));
                }
            }
        }
    }

    @Test
    void aFunctionMayComputeGradientsItself() {
        TensorFunction slope = in -> {
            Tensor leaf = in[0].detach().set_requires_grad(true);
            return Backward.of(leaf.square().sum()).gradients(leaf);
        };
        try (var compiled = Compiled.of(slope)) {
            for (int call = 0; call < 2; call++) {
                assertArrayEquals(new double[] {2, 4}, Tensors.toDoubles(compiled.apply(tensor(1, 2))[0]));
            }
        }
    }

    @Test
    void outputsRequireAGradientLikeThoseOfTheFunction() {
        TensorFunction function = in -> new Tensor[] {
            in[0].mul(in[1]), in[1].exp(), null, in[0].detach().exp()
        };
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 2; call++) {
                Tensor[] y = compiled.apply(trainable(1, 2), tensor(3, 4));
                assertTrue(y[0].requires_grad());
                assertFalse(y[1].requires_grad());
                assertFalse(y[3].requires_grad());
            }
        }
    }

    /** Checks that a change between the passes is an error, as without the recording, and not a wrong gradient. */
    private static void assertNoticed(TensorFunction function, boolean isOutput, Tensor changed) {
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 2; call++) {
                Tensor x = Tensors.of(new double[] {0, 1, 2, 3}, 2, 2).set_requires_grad(true);
                Tensor y = compiled.apply(x)[0];
                try (var noGrad = NoGrad.open()) {
                    (isOutput ? y : changed).mul_(new Scalar(2.0));
                }
                String message = assertThrows(RuntimeException.class, () -> gradient(y, x))
                        .getMessage();
                assertTrue(message.contains("has been modified by an inplace operation"), message);
            }
        }
    }

    @Test
    void changesOfSavedTensorsAreNoticed() {
        Tensor captured = Tensors.of(new double[] {1, 2, 3, 4}, 2, 2);
        assertNoticed(in -> new Tensor[] {in[0].mul(captured)}, false, captured);
        assertNoticed(in -> new Tensor[] {in[0].exp()}, true, null);
        assertNoticed(in -> new Tensor[] {in[0].exp().t()}, true, null);
        assertNoticed(in -> new Tensor[] {in[0].exp().select(0, 1)}, true, null);
    }

    @Test
    void aViewOfASavedTensorHasTheRightGradient() {
        TensorFunction rows =
                in -> new Tensor[] {in[0].exp().select(0, 1), in[0].exp().t()};
        try (var compiled = Compiled.of(rows)) {
            for (int call = 0; call < 2; call++) {
                Tensor x = Tensors.of(new double[] {0, 1, 2, 3}, 2, 2).set_requires_grad(true);
                double[] expected = {0, 0, Math.exp(2), Math.exp(3)};
                assertArrayEquals(expected, gradient(compiled.apply(x)[0], x), 1e-12);
            }
        }
    }

    @Test
    void aBackwardPassMayFollowTheEndOfItsFunction() {
        Tensor weight = tensor(3, 4);
        for (int calls = 1; calls <= 2; calls++) {
            var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)});
            Tensor x = trainable(1, 2);
            Tensor y = compiled.apply(x)[0];
            y = calls == 2 ? compiled.apply(x)[0] : y;
            compiled.close();
            assertArrayEquals(new double[] {3, 4}, gradient(y, x));
        }
    }

    @Test
    void sparseTensorsAreNamed() {
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].add(in[0])})) {
            String message = assertThrows(
                            IllegalArgumentException.class,
                            () -> compiled.apply(tensor(1, 0).to_sparse()))
                    .getMessage();
            assertEquals("input 0 must be a dense tensor", message);
        }
        String inside = Refusal.of(in -> new Tensor[] {in[0].to_sparse().to_dense()}, tensor(1, 0));
        assertTrue(inside.contains("a tensor that is not dense cannot be recorded, called at Compiled"), inside);
    }

    /** The schemas of batch normalization do not declare that it updates the running statistics. */
    @Test
    void batchNormUpdatesItsRunningStatisticsOncePerCall() {
        checkRunningStatistics(Device.cpu(), false);
    }

    @Test
    @Tag("gpu")
    void batchNormUpdatesItsRunningStatisticsOncePerCallOnTheGpu() {
        checkRunningStatistics(Device.cuda(0), false);
        checkRunningStatistics(Device.cuda(0), true);
    }

    private static void checkRunningStatistics(Device device, boolean cudnn) {
        int rows = 8;
        int channels = 5;
        int positions = 4;
        var mean = new TensorOptional(torch.zeros(new long[] {channels}, device.options(DType.FLOAT32)));
        var variance = new TensorOptional(torch.ones(new long[] {channels}, device.options(DType.FLOAT32)));
        var weight = new TensorOptional(torch.ones(new long[] {channels}, device.options(DType.FLOAT32)));
        var bias = new TensorOptional(torch.zeros(new long[] {channels}, device.options(DType.FLOAT32)));
        double[] expectedMean = new double[channels];
        double[] expectedVariance = {1, 1, 1, 1, 1};
        TensorFunction training =
                in -> new Tensor[] {torch.batch_norm(in[0], weight, bias, mean, variance, true, 0.1, 1e-5, cudnn)};
        TensorFunction evaluation =
                in -> new Tensor[] {torch.batch_norm(in[0], weight, bias, mean, variance, false, 0.1, 1e-5, cudnn)};
        try (var trained = Compiled.of(training);
                var evaluated = Compiled.of(evaluation)) {
            for (int call = 0; call < 4; call++) {
                Tensor x = torch.randn(new long[] {rows, channels, positions, 1}, device.options(DType.FLOAT32))
                        .set_requires_grad(call < 2);
                trained.apply(x);
                double[] values = Tensors.toDoubles(x);
                int count = rows * positions;
                for (int channel = 0; channel < channels; channel++) {
                    double sum = 0;
                    double squares = 0;
                    for (int i = 0; i < count; i++) {
                        double value = values[(i / positions * channels + channel) * positions + i % positions];
                        sum += value;
                        squares += value * value;
                    }
                    double unbiased = (squares - sum * sum / count) / (count - 1);
                    expectedMean[channel] += 0.1 * (sum / count - expectedMean[channel]);
                    expectedVariance[channel] += 0.1 * (unbiased - expectedVariance[channel]);
                }
                assertArrayEquals(expectedMean, Tensors.toDoubles(mean.get()), 1e-6);
                assertArrayEquals(expectedVariance, Tensors.toDoubles(variance.get()), 1e-6);
                evaluated.apply(x);
            }
            assertEquals(1, trained.recordings()); // with gradients it is called without being compiled
            assertEquals(2, evaluated.recordings());
            assertArrayEquals(expectedMean, Tensors.toDoubles(mean.get()), 1e-6);
        }
    }

    /** The operator of the CPU keeps what its backward pass needs in grad mode only, and programs run without it. */
    @Test
    void lstmsHaveTheGradientsOfPlainExecutionInDoublePrecision() {
        assertEquals(2, checkLstm(Device.cpu()));
    }

    @Test
    @Tag("gpu")
    void lstmsOnTheGpuHaveTheGradientsOfPlainExecutionInDoublePrecision() {
        try (var fp32 = Torch.tf32(false)) {
            checkLstm(Device.cuda(0));
        }
    }

    /** Returns the number of recordings. */
    private static int checkLstm(Device device) {
        TensorFunction lstm = in -> {
            Tensor zeros = torch.zeros(new long[] {1, 2, 5}, in[0].options());
            return new Tensor[] {
                torch.lstm(
                                in[0],
                                new TensorVector(zeros, zeros),
                                new TensorVector(in[1], in[2], in[3], in[4]),
                                true,
                                1,
                                0.0,
                                true,
                                false,
                                false)
                        .get0()
            };
        };
        try (var compiled = Compiled.of(lstm)) {
            for (int call = 0; call < 3; call++) {
                Tensor[] inputs = new Tensor[5];
                Tensor[] exact = new Tensor[5];
                long[][] shapes = {{3, 2, 4}, {20, 4}, {20, 5}, {20}, {20}};
                for (int i = 0; i < inputs.length; i++) {
                    inputs[i] = torch.randn(shapes[i], device.options(DType.FLOAT32))
                            .set_requires_grad(true);
                    exact[i] = inputs[i].detach().to(torch.ScalarType.Double).set_requires_grad(true);
                }
                Tensor output = compiled.apply(inputs)[0];
                Tensor expected = lstm.apply(exact)[0];
                assertArrayEquals(Tensors.toDoubles(expected), Tensors.toDoubles(output), 1e-5);
                Tensor[] gradients = Backward.of(output.square().sum()).gradients(inputs);
                Tensor[] ofExact = Backward.of(expected.square().sum()).gradients(exact);
                for (int i = 0; i < inputs.length; i++) {
                    assertArrayEquals(
                            Tensors.toDoubles(ofExact[i]), Tensors.toDoubles(gradients[i]), 1e-4, "input " + i);
                }
                try (var noGrad = NoGrad.open()) { // oneDNN's operator, whose results are wrong on some AMD CPUs
                    Tensor plain = lstm.apply(inputs)[0];
                    assertArrayEquals(Tensors.toDoubles(plain), Tensors.toDoubles(compiled.apply(inputs)[0]));
                }
            }
            return compiled.recordings();
        }
    }
}
