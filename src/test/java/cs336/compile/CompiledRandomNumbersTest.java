package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Dropout;
import cs336.checkpointing.ActivationCheckpoint;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Backward;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The random numbers of calls that record, and of later calls. */
class CompiledRandomNumbersTest extends ScopedTest {
    private static final int N = 1000;

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCallThatRecordsDrawsTheNumbersOfLaterCalls(boolean hasGradients) {
        TensorFunction function = in -> {
            torch.rand(N); // an unused operator, which the program does not have
            return new Tensor[] {in[0].mul(torch.rand(N))};
        };
        Tensor x = torch.ones(N).set_requires_grad(hasGradients);
        try (var compiled = Compiled.of(function)) {
            Torch.seed(3);
            Tensor first = compiled.apply(x)[0];
            Tensor second = compiled.apply(x)[0];
            Torch.seed(3);
            assertTrue(torch.equal(first, compiled.apply(x)[0]));
            assertTrue(torch.equal(second, compiled.apply(x)[0]));
            assertFalse(torch.equal(first, second));
            assertEquals(1, compiled.recordings());
        }
    }

    /** The backward pass calls the compiled function again, in the random state of the call that recorded it. */
    @Test
    void aCheckpointedCallHasTheNumbersOfItsRecomputation() {
        Tensor x = torch.ones(N).set_requires_grad(true);
        try (var dropout = new Dropout(0.5);
                var compiled = Compiled.of(dropout)) {
            for (int i = 0; i < 3; i++) {
                Tensor y = ActivationCheckpoint.apply(in -> compiled.apply(in)[0], x);
                Tensor gradient = Backward.of(y.sum()).gradients(x)[0];
                assertTrue(torch.equal(y.detach(), gradient), "call " + i); // 0 or 2
            }
            assertEquals(1, compiled.recordings());
        }
    }

    @Test
    void equalCallsDrawDifferentNumbers() {
        Tensor x = torch.ones(100);
        try (var compiled = Compiled.of(in -> new Tensor[] {in[0].bernoulli(0.5), in[0].bernoulli(0.5)})) {
            for (int call = 0; call < 2; call++) {
                Tensor[] drawn = compiled.apply(x);
                assertFalse(drawn[0].equal(drawn[1]));
            }
        }
    }
}
