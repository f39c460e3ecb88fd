package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.fuse.FusionPasses;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/**
 * Tensors that share memory, are lazily negated or conjugated, or are written to between a call and its backward pass.
 */
class CompiledAliasesTest extends ScopedTest {
    private static Tensor floats(double... values) {
        return Tensors.of(values, DType.FLOAT32, values.length);
    }

    private static double[] numbers(Tensor tensor) {
        return Tensors.toDoubles(tensor.to(DType.FLOAT64.scalarType()));
    }

    @Test
    void aNegatedInputIsNotReadAsARecordedPlainOne() {
        Tensor z = torch.view_as_complex(floats(1, 2, 3, 4).view(2, 2));
        try (var doubled = Compiled.of(in -> new Tensor[] {in[0].add(in[0])})) {
            assertArrayEquals(new double[] {4, 8}, numbers(doubled.apply(torch.imag(z))[0]));
            Tensor negated = torch.imag(z.conj());
            assertTrue(negated.is_neg());
            assertThrows(UnrecordableException.class, () -> doubled.apply(negated));
        }
    }

    @Test
    void theDistanceOfAliasesIsCountedInBytes() {
        Tensor base = torch.arange(new Scalar(32.0)).to(DType.FLOAT32.scalarType());
        Tensor complex = torch.view_as_complex(base.view(16, 2));
        TensorFunction parts = in -> new Tensor[] {
            in[0].add(new Scalar(0.0)), torch.view_as_real(in[1]).add(new Scalar(0.0))
        };
        try (var compiled = Compiled.of(parts)) {
            for (long[] offset : new long[][] {{4, 2}, {8, 6}}) {
                Tensor x = base.narrow(0, offset[0], 2);
                Tensor z = complex.narrow(0, offset[1], 2);
                assertArrayEquals(numbers(torch.view_as_real(z)), numbers(compiled.apply(x, z)[1]));
            }
            assertEquals(2, compiled.recordings());
        }
    }

    @Test
    void aConjugatedGradientIsReadConjugated() {
        Tensor numbers = torch.randn(3, 2);
        Tensor b = torch.view_as_complex(torch.randn(3, 2));
        double[][] gradients = new double[2][];
        try (var product = Compiled.of(in -> new Tensor[] {in[0].mul(in[1])})) {
            for (int i = 0; i < 2; i++) {
                Tensor a = torch.view_as_complex(numbers.clone()).detach().set_requires_grad(true);
                Tensor z = i == 0 ? a.mul(b) : product.apply(a, b)[0];
                Tensor loss =
                        torch.view_as_real(z.conj().resolve_conj()).select(1, 1).sum();
                Tensor gradient = Backward.of(loss).gradients(a)[0].resolve_conj();
                gradients[i] = numbers(torch.view_as_real(gradient));
            }
        }
        assertArrayEquals(gradients[0], gradients[1], 1e-6);
    }

    @Test
    void aParameterThatIsListedTwiceHasOneGradient() {
        Tensor w = floats(1, 2).set_requires_grad(true);
        try (var product = Compiled.of(in -> new Tensor[] {in[0].mul(w)}, List.of(w, w))) {
            Tensor loss = product.apply(floats(3, 4))[0].sum();
            assertArrayEquals(new double[] {3, 4}, numbers(Backward.of(loss).gradients(w)[0]));
        }
    }

    /** A result of exp is saved for its gradient, and the two outputs are its halves. */
    @Test
    void aWriteToOneOutputChangesNoGradientOfAnother() {
        Tensor x = floats(0, 1, 2, 3).set_requires_grad(true);
        TensorFunction halves = in -> {
            Tensor h = in[0].exp();
            return new Tensor[] {h.narrow(0, 0, 2), h.narrow(0, 2, 2)};
        };
        try (var compiled = Compiled.of(halves)) {
            Tensor[] out = compiled.apply(x);
            double[] expected = numbers(x.exp().detach());
            out[1].detach().mul_(new Scalar(10.0));
            Tensor loss = out[0].sum().add(out[1].sum());
            assertArrayEquals(expected, numbers(Backward.of(loss).gradients(x)[0]), 1e-5);
        }
    }

    @Test
    void aReplayedWriteToAnInputIsNoticedByAutograd() {
        Tensor w = floats(0, 1).set_requires_grad(true);
        try (var doubles =
                Compiled.of(in -> new Tensor[] {in[0].mul_(new Scalar(2.0)).sum()})) {
            for (int call = 0; call < 3; call++) {
                Tensor h = w.exp();
                doubles.apply(h.detach());
                String message = assertThrows(
                                RuntimeException.class,
                                () -> Backward.of(h.sum()).gradients(w))
                        .getMessage();
                assertTrue(message.contains("modified by an inplace operation"), message);
            }
        }
    }

    /** The number is rounded to the dtype of the tensor before the comparison. */
    @Test
    void comparisonsOfBf16WithANumberAreThoseOfPyTorch() {
        Tensor x = floats(0.1, 0.2, 0.5).to(DType.BFLOAT16.scalarType());
        TensorFunction compare = in -> new Tensor[] {
            in[0].gt(new Scalar(0.1)), in[0].eq(new Scalar(0.1)), in[0].lt(new Scalar(0.2)), in[0].ge(new Scalar(0.2))
        };
        Tensor[] expected = compare.apply(x);
        Program recorded = Recorder.record(compare, x);
        FusionPasses.stages(recorded, Device.cpu()).forEach((stage, program) -> {
            Tensor[] actual = new Interpreter(program).run(x);
            for (int i = 0; i < expected.length; i++) {
                assertArrayEquals(numbers(expected[i]), numbers(actual[i]), stage + ", comparison " + i);
            }
        });
    }

    @Test
    void theBackwardPassIsOutsideOfTheAutocastOfTheCaller() {
        Tensor a = torch.randn(4, 4);
        Tensor b = torch.randn(4, 4);
        TensorFunction inFp32 = in -> {
            try (var island = Autocast.of(Device.cpu(), DType.FLOAT32)) {
                return new Tensor[] {in[0].mm(in[1])};
            }
        };
        double[][] gradients = new double[2][];
        try (var compiled = Compiled.of(inFp32)) {
            for (int i = 0; i < 2; i++) {
                Tensor x = a.clone().set_requires_grad(true);
                Tensor y;
                try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                    y = (i == 0 ? inFp32.apply(x, b) : compiled.apply(x, b))[0];
                }
                gradients[i] = numbers(Backward.of(y.sum()).gradients(x)[0]);
            }
        }
        assertArrayEquals(gradients[0], gradients[1], 1e-6);
    }
}
