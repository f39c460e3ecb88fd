package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Losses;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CompiledTest extends ScopedTest {
    private static Tensor tensor(double... values) {
        return Tensors.of(values, values.length);
    }

    /** Calls a compiled function twice, since the first call also records, and checks both results. */
    private static void assertComputes(TensorFunction function, Tensor... inputs) {
        try (var compiled = Compiled.of(function)) {
            for (int call = 0; call < 2; call++) {
                Tensor[] expected = function.apply(clones(inputs));
                Tensor[] got = compiled.apply(clones(inputs));
                for (int i = 0; i < expected.length; i++) {
                    assertTrue(torch.equal(expected[i], got[i]), "call " + call + ", output " + i);
                }
            }
            assertEquals(1, compiled.recordings());
        }
    }

    private static Tensor[] clones(Tensor... tensors) {
        Tensor[] clones = new Tensor[tensors.length];
        for (int i = 0; i < clones.length; i++) {
            clones[i] = tensors[i].clone();
        }
        return clones;
    }

    @Test
    void writesInPlaceToInputsReachTheCaller() {
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].add_(in[1]).mul(in[1])})) {
            for (int call = 0; call < 2; call++) {
                Tensor x = tensor(1, 2);
                Tensor y = compiled.apply(x, tensor(10, 20))[0];
                assertArrayEquals(new double[] {11, 22}, Tensors.toDoubles(x));
                assertArrayEquals(new double[] {110, 440}, Tensors.toDoubles(y));
            }
        }
    }

    @Test
    void aWriteThroughAViewIsSeenByAllViews() {
        assertComputes(
                in -> {
                    Tensor copy = in[0].clone();
                    Tensor row = copy.select(0, 1);
                    Tensor before = row.mul(new Scalar(2.0));
                    copy.narrow(1, 0, 1).zero_();
                    return new Tensor[] {before, row.mul(new Scalar(3.0)), copy};
                },
                torch.randn(3, 4));
    }

    @Test
    void outputsShareNoMemory() {
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0], in[0].view(-1), in[0].exp(), in[0].exp()})) {
            Tensor x = tensor(1, 2);
            for (int call = 0; call < 2; call++) {
                Tensor[] y = compiled.apply(x);
                y[1].zero_();
                y[2].zero_();
                assertArrayEquals(new double[] {1, 2}, Tensors.toDoubles(x));
                assertArrayEquals(new double[] {1, 2}, Tensors.toDoubles(y[0]));
                assertFalse(torch.equal(y[2], y[3]));
            }
        }
    }

    @Test
    void absentAndReorderedAndUnusedInputsAreAllowed() {
        assertComputes(in -> new Tensor[] {in[2].sub(in[0])}, tensor(1, 2), tensor(3), tensor(5, 7));
    }

    @Test
    void sizesOfZeroAndOneAreAllowed() {
        TensorFunction softmax = in -> new Tensor[] {torch.softmax(in[0].mul(new Scalar(2.0)), -1), in[0].sum()};
        assertComputes(softmax, torch.randn(0, 4));
        assertComputes(softmax, torch.randn(3, 0));
        assertComputes(softmax, torch.randn(1, 1));
        assertComputes(in -> new Tensor[] {in[0].exp().add(in[1])}, torch.scalar_tensor(new Scalar(2.0)), tensor(1));
    }

    @Test
    void infinityAndNotANumberPassThrough() {
        double infinity = Double.POSITIVE_INFINITY;
        TensorFunction function = in -> new Tensor[] {
            in[0].isnan(),
            torch.softmax(in[0], -1).isnan(),
            in[0].mul(new Scalar(0.0)).isnan(),
            in[0].neg().exp()
        };
        try (var compiled = Compiled.of(function)) {
            Tensor x = tensor(infinity, -infinity, Double.NaN, 0);
            Tensor[] expected = function.apply(x);
            for (int call = 0; call < 2; call++) {
                Tensor[] got = compiled.apply(x);
                for (int i = 0; i < 3; i++) {
                    assertTrue(torch.equal(expected[i], got[i]), "output " + i);
                }
                assertArrayEquals(Tensors.toDoubles(expected[3]), Tensors.toDoubles(got[3]));
            }
        }
    }

    @Test
    void otherLayoutsDtypesAutocastAndTf32AreRecordedAgain() {
        Tensor weight = torch.randn(4, 4);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].matmul(weight)})) {
            List<Tensor> inputs = List.of(
                    torch.randn(3, 4), torch.randn(2, 4), torch.randn(4, 3).t());
            for (Tensor x : inputs) {
                for (int call = 0; call < 2; call++) {
                    assertTrue(torch.equal(x.matmul(weight), compiled.apply(x)[0]));
                }
            }
            assertEquals(3, compiled.recordings());
            try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                assertEquals(DType.BFLOAT16, DType.of(compiled.apply(inputs.get(0))[0]));
            }
            assertEquals(4, compiled.recordings());
            Torch.allowTf32(true);
            try {
                compiled.apply(inputs.get(0));
            } finally {
                Torch.allowTf32(false);
            }
            assertEquals(5, compiled.recordings());
        }
    }

    @Test
    void inputsThatShareMemoryAreRecordedSeparately() {
        try (var compiled =
                Compiled.of(in -> new Tensor[] {in[0].add_(new Scalar(1.0)).add(in[1])})) {
            for (int call = 0; call < 2; call++) {
                Tensor x = tensor(1, 2);
                assertArrayEquals(new double[] {4, 6}, Tensors.toDoubles(compiled.apply(x, x)[0]));
                assertArrayEquals(
                        new double[] {12, 23}, Tensors.toDoubles(compiled.apply(tensor(1, 2), tensor(10, 20))[0]));
            }
            assertEquals(2, compiled.recordings());
        }
    }

    @Test
    void constantsAreReadAtEachCall() {
        Tensor weight = tensor(1, 2);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)})) {
            assertArrayEquals(new double[] {3, 6}, Tensors.toDoubles(compiled.apply(tensor(3, 3))[0]));
            weight.add_(new Scalar(1.0));
            assertArrayEquals(new double[] {6, 9}, Tensors.toDoubles(compiled.apply(tensor(3, 3))[0]));
        }
    }

    @Test
    void twoCompiledFunctionsAtOnceDoNotMix() {
        try (var twice = Compiled.of(in -> new Tensor[] {in[0].add(in[0])});
                var square = Compiled.of(in -> new Tensor[] {in[0].mul(in[0])})) {
            for (int call = 1; call < 4; call++) {
                assertArrayEquals(new double[] {2.0 * call}, Tensors.toDoubles(twice.apply(tensor(call))[0]));
                assertArrayEquals(new double[] {call * call}, Tensors.toDoubles(square.apply(tensor(call))[0]));
            }
        }
    }

    @Test
    void aReadOnTheHostIsNamedWithItsSourceLine() {
        try (var compiled =
                Compiled.of(in -> new Tensor[] {in[0].mul(new Scalar(in[0].sum().item_double()))})) {
            String message = assertThrows(UnrecordableException.class, () -> compiled.apply(tensor(1, 2)))
                    .getMessage();
            assertTrue(
                    message.matches("the function cannot be recorded: _local_scalar_dense reads elements of a tensor on"
                            + " the host, as item\\(\\) does, and BatchNorm without a momentum in training mode, called at"
                            + " CompiledTest.java:\\d+"),
                    message);
        }
    }

    @Test
    void aFailedRecordingKeepsNoTensor() {
        Tensor captured = tensor(3, 4);
        try (var compiled = Compiled.of(in -> {
            Tensor sum = in[0].add(captured);
            sum.sum().item_double();
            return new Tensor[] {sum};
        })) {
            assertThrows(UnrecordableException.class, () -> compiled.apply(tensor(1, 2)));
            assertEquals(1, captured.use_count());
        }
    }

    @Test
    void orPlainCallsAFunctionThatBranchesOnDataItself() {
        var calls = new AtomicInteger();
        try (var compiled = Compiled.of(in -> {
                    calls.incrementAndGet();
                    return new Tensor[] {in[0].sum().item_double() > 0 ? in[0].neg() : in[0].mul(in[0])};
                })
                .orPlain()) {
            assertArrayEquals(new double[] {-1, -2}, Tensors.toDoubles(compiled.apply(tensor(1, 2))[0]));
            assertArrayEquals(new double[] {1, 4}, Tensors.toDoubles(compiled.apply(tensor(-1, -2))[0]));
            assertEquals(3, calls.get(), "only the first call tries to record");
            Tensor leaf = tensor(3, 4).set_requires_grad(true);
            compiled.apply(leaf)[0].sum().backward();
            assertArrayEquals(new double[] {-1, -1}, Tensors.toDoubles(leaf.grad()));
            assertEquals(0, compiled.recordings());
        }
    }

    /** The elements of a tuple are freed with it. */
    @Test
    void orPlainReturnsElementsOfTuples() {
        try (var compiled = Compiled.of(in -> {
                    in[0].sum().item_double();
                    return new Tensor[] {torch.max(in[0], 0, false).get0()};
                })
                .orPlain()) {
            for (int i = 0; i < 300; i++) {
                assertArrayEquals(new double[] {2}, Tensors.toDoubles(compiled.apply(tensor(1, 2))[0]));
            }
        }
    }

    @Test
    void anExceptionOfTheFunctionReachesTheCaller() {
        try (var compiled = Compiled.of(in -> {
            in[0].add(in[0]);
            throw new UnsupportedOperationException("not today");
        })) {
            String message = assertThrows(UnsupportedOperationException.class, () -> compiled.apply(tensor(1)))
                    .getMessage();
            assertEquals("not today", message);
            assertEquals(2, Tensors.toDoubles(tensor(1).add(tensor(1)))[0]); // operators run as before
        }
    }

    @Test
    void wrongInputsAreNamed() {
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].exp()})) {
            assertThrows(IllegalArgumentException.class, compiled::apply);
            String absent = assertThrows(IllegalArgumentException.class, () -> compiled.apply(tensor(1), null))
                    .getMessage();
            assertEquals("input 1 must be a defined tensor", absent);
        }
    }

    @Test
    void gradientsEqualThoseOfPlainExecution() {
        Tensor weight = torch.randn(6).set_requires_grad(true);
        TensorFunction norm = in -> {
            Tensor scale = in[0].square()
                    .mean(new long[] {-1}, true, new ScalarTypeOptional())
                    .rsqrt();
            return new Tensor[] {in[0].mul(scale).mul(weight), scale};
        };
        try (var compiled = Compiled.of(norm, List.of(weight))) {
            for (int call = 0; call < 3; call++) {
                Tensor x = torch.randn(5, 6);
                Tensor dy = torch.randn(5, 6);
                Tensor[][] gradients = new Tensor[2][];
                for (int i = 0; i < 2; i++) {
                    Tensor leaf = x.clone().set_requires_grad(true);
                    Tensor y = (i == 0 ? norm.apply(leaf) : compiled.apply(leaf))[0];
                    gradients[i] = Backward.of(y).with(dy).gradients(leaf, weight);
                }
                assertTrue(torch.allclose(gradients[0][0], gradients[1][0]), "input, call " + call);
                assertTrue(torch.allclose(gradients[0][1], gradients[1][1]), "weight, call " + call);
            }
            assertEquals(1, compiled.recordings());
        }
    }

    @Test
    void aTrainableTensorThatIsNotAParameterIsRefused() {
        Tensor weight = torch.randn(3).set_requires_grad(true);
        Tensor leaf = tensor(1, 2, 3).to(DType.FLOAT32.scalarType()).set_requires_grad(true);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)})) {
            String message = assertThrows(IllegalStateException.class, () -> compiled.apply(leaf))
                    .getMessage();
            assertTrue(
                    message.startsWith("the function reads a tensor of shape [3] that requires a gradient"), message);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRefusedFunctionLeavesNoHandleOfTheTensorsThatItReads(boolean trainableInput) {
        Tensor weight = torch.randn(3).set_requires_grad(true);
        long handles = weight.use_count();
        try (var scope = MemoryScope.open();
                var compiled = Compiled.of(in -> new Tensor[] {in[0].mul(weight)})) {
            Tensor input = torch.randn(3).set_requires_grad(trainableInput);
            assertThrows(IllegalStateException.class, () -> compiled.apply(input));
        }
        assertEquals(handles, weight.use_count());
    }

    @Test
    void aCompiledModelTrainsLikeThePlainOne() {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(20)
                .contextLength(6)
                .dModel(16)
                .numLayers(2)
                .numHeads(2)
                .dFf(24)
                .build();
        try (var model = new TransformerLM(config, Device.cpu());
                var compiled = Compiled.of(model)) {
            Tensor[] parameters = model.parameters().toArray(new Tensor[0]);
            for (int call = 0; call < 2; call++) {
                Tensor ids = torch.randint(20, new long[] {2, 6}, Device.cpu().options(DType.INT64));
                Tensor[] plain = Backward.of(Losses.crossEntropy(model.forward(ids), ids))
                        .gradients(parameters);
                Tensor[] got = Backward.of(Losses.crossEntropy(compiled.apply(ids)[0], ids))
                        .gradients(parameters);
                for (int i = 0; i < plain.length; i++) {
                    assertTrue(torch.equal(plain[i], got[i]), "gradient " + i);
                }
            }
        }
    }

    @Test
    void theExplanationShowsProgramsAndKernels() {
        try (var compiled = Compiled.of(in -> new Tensor[] {torch.softmax(in[0].mul(new Scalar(2.0)), -1)})) {
            compiled.apply(torch.randn(8, 64));
            String text = compiled.explain();
            assertTrue(text.contains("recorded: 2 operations"), text);
            assertTrue(text.contains("_softmax("), text);
            assertTrue(text.contains("fused: 1 operations"), text);
            assertTrue(text.contains("__global__"), text);
        }
    }
}
