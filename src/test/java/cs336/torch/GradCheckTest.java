package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class GradCheckTest extends ScopedTest {
    private Tensor x; // [2, 3]
    private Tensor w; // [3]

    @BeforeEach
    void open() {
        x = Tensors.of(new double[] {0.3, -1.2, 2, 0.7, 0.1, -0.4}, 2, 3);
        w = Tensors.of(new double[] {1.5, -0.5, 0.25}, 3);
    }

    /** x w, with gradients of the subclass. */
    private abstract static class ElementwiseProduct extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs);
            return new Tensor[] {inputs[0].mul(inputs[1])};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            Tensor dy = gradOutputs[0];
            return gradients(dy.mul(ctx.saved(1)), dy.mul(ctx.saved(0)).sum(0));
        }

        abstract Tensor[] gradients(Tensor dx, Tensor dw);
    }

    private static AssertionError wrong(GradCheck.Differentiable function, Tensor... inputs) {
        return assertThrows(AssertionError.class, () -> GradCheck.check(function, inputs));
    }

    private static void assertContains(String part, Throwable error) {
        assertTrue(error.getMessage().contains(part), error.getMessage());
    }

    @Test
    void correctGradientPassesWithASmallError() {
        AutogradFunction correct = new ElementwiseProduct() {
            @Override
            Tensor[] gradients(Tensor dx, Tensor dw) {
                return new Tensor[] {dx, dw};
            }
        };
        double worst = GradCheck.check(correct, x, w);
        assertTrue(worst < 1e-9, "error " + worst);
        GradCheck.checkDouble(correct, x, w);
    }

    @Test
    void oneWrongElementIsFoundAndNamed() {
        AutogradFunction wrong = new ElementwiseProduct() {
            @Override
            Tensor[] gradients(Tensor dx, Tensor dw) {
                dx.select(0, 1).select(0, 2).mul_(new Scalar(1.0001));
                return new Tensor[] {dx, dw};
            }
        };
        assertContains("output 0 with respect to input 0 at [1, 2]: backward gives", wrong(wrong::apply, x, w));
    }

    @Test
    void missingGradientIsFound() {
        AutogradFunction forgetful = new ElementwiseProduct() {
            @Override
            Tensor[] gradients(Tensor dx, Tensor dw) {
                return new Tensor[] {dx, null};
            }
        };
        assertContains("with respect to input 1 at [0]: backward gives no gradient", wrong(forgetful::apply, x, w));
    }

    @Test
    void gradientThatIsNotANumberIsFound() {
        AutogradFunction nan = new ElementwiseProduct() {
            @Override
            Tensor[] gradients(Tensor dx, Tensor dw) {
                return new Tensor[] {dx, dw.div(torch.zeros_like(dw))};
            }
        };
        assertContains("input 1", wrong(nan::apply, x, w));
    }

    @Test
    void gradientThatIgnoresTheOutputGradientIsFound() {
        AutogradFunction ignoring = new ElementwiseProduct() {
            @Override
            Tensor[] gradients(Tensor dx, Tensor dw) {
                return new Tensor[] {dx.abs(), dw};
            }
        };
        wrong(ignoring::apply, x.abs(), w.abs());
    }

    @Test
    void detachedOutputIsFound() {
        assertContains("no gradient", wrong(in -> new Tensor[] {in[0].detach().exp()}, x));
        assertContains(
                "derivative of output 1 ",
                wrong(in -> new Tensor[] {in[0].exp(), in[0].detach().exp()}, x));
    }

    @Test
    void outputsAreCheckedSeparatelyAndTogether() {
        var onlyTogether = new AutogradFunction() {
            @Override
            protected Tensor[] forward(Context ctx, Tensor... inputs) {
                return new Tensor[] {inputs[0].neg(), inputs[0].clone()};
            }

            @Override
            protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
                if (gradOutputs[0] == null || gradOutputs[1] == null) {
                    return new Tensor[] {null};
                }
                return new Tensor[] {gradOutputs[1].sub(gradOutputs[0])};
            }
        };
        assertContains("derivative of output 0 ", wrong(onlyTogether::apply, x));
        var onlySeparately = new AutogradFunction() {
            @Override
            protected Tensor[] forward(Context ctx, Tensor... inputs) {
                return new Tensor[] {inputs[0].neg(), inputs[0].clone()};
            }

            @Override
            protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
                return new Tensor[] {gradOutputs[0] == null ? gradOutputs[1] : gradOutputs[0].neg()};
            }
        };
        assertContains("sum of outputs 0, 1", wrong(onlySeparately::apply, x));
    }

    @Test
    void builtInOperationsPass() {
        GradCheck.check(in -> new Tensor[] {in[0].matmul(in[1]).tanh(), in[0].softmax(-1)}, x, w);
        GradCheck.checkDouble(in -> new Tensor[] {in[0].matmul(in[1]).tanh(), in[0].softmax(-1)}, x, w);
        GradCheck.checkDouble(in -> new Tensor[] {torch.ones_like(in[0])}, x);
        GradCheck.check(in -> new Tensor[] {in[0].sin()}, Tensors.of(new double[] {0.5}));
    }

    @Test
    void largeInputsHaveALargerStep() {
        double worst = GradCheck.check(in -> new Tensor[] {in[0].sqrt()}, Tensors.of(new double[] {1e8}, 1));
        assertTrue(worst < 1e-9, "error " + worst);
    }

    @Test
    void integerInputsAndOutputsAreIgnored() {
        Tensor index = Tensors.of(new long[] {1, 1, 0}, 3);
        GradCheck.check(in -> new Tensor[] {in[0].index_select(0, in[1]), in[1].add(in[1])}, x, index);
    }

    @Test
    void inputsAreNotModified() {
        Tensor before = x.clone();
        GradCheck.check(in -> new Tensor[] {in[0].square()}, x);
        assertArrayEquals(Tensors.toDoubles(before), Tensors.toDoubles(x));
        assertFalse(x.requires_grad());
        Tensor leaf = x.clone().set_requires_grad(true);
        GradCheck.checkDouble(in -> new Tensor[] {in[0].square()}, leaf);
        assertFalse(leaf.grad().defined());
    }

    @Test
    void transposedInputIsSupported() {
        GradCheck.check(
                in -> new Tensor[] {in[0].matmul(in[1])}, x.t().contiguous().t(), w);
    }

    /** A function whose backward pass is correct but not differentiable, without declaring it. */
    private static final class UndeclaredOnceDifferentiable extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs);
            return new Tensor[] {inputs[0].square()};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            return new Tensor[] {
                gradOutputs[0].mul(ctx.saved(0)).mul(new Scalar(2.0)).detach()
            };
        }
    }

    @Test
    void missingSecondDerivativeIsFound() {
        GradCheck.check(new UndeclaredOnceDifferentiable(), x);
        assertThrows(AssertionError.class, () -> GradCheck.checkDouble(new UndeclaredOnceDifferentiable(), x));
    }

    @Test
    void narrowDtypesAreRefused() {
        Tensor narrow = x.to(ScalarType.Float);
        var input = assertThrows(
                IllegalArgumentException.class,
                () -> GradCheck.check(in -> new Tensor[] {in[0].mul(in[1])}, w, narrow));
        assertContains("input 1 is fp32", input);
        var output = assertThrows(
                IllegalArgumentException.class,
                () -> GradCheck.check(in -> new Tensor[] {in[0].to(ScalarType.Float)}, x));
        assertContains("output 0 is fp32", output);
        Tensor integers = Tensors.of(new long[] {1}, 1);
        assertThrows(IllegalArgumentException.class, () -> GradCheck.check(in -> in, integers));
        assertEquals(1, integers.item_long());
    }
}
