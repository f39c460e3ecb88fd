package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.torch.OperatorInterceptor.OperatorCall;
import cs336.torch.OperatorInterceptor.OperatorListener;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class OperatorInterceptorTest {
    /** Refuses all operators. */
    private static final class Refusal implements OperatorListener {
        @Override
        public void dispatched(OperatorCall call) {
            throw new IllegalStateException("no");
        }

        @Override
        public Tensor[] called(JavaOperator operator, Tensor... inputs) {
            throw new IllegalStateException("no");
        }
    }

    private static void requireRefused(Runnable action) {
        for (int i = 0; i < 100; i++) { // a damaged heap is noticed sooner or later
            var error = assertThrows(IllegalStateException.class, () -> OperatorInterceptor.run(new Refusal(), action));
            assertEquals("no", error.getMessage());
        }
    }

    @Test
    void anExceptionOfTheListenerEndsOperatorsWithAnyNumberOfResults() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(2, 4, 8, 16);
            var none = new TensorOptional();
            requireRefused(() -> x.fill_(new org.bytedeco.pytorch.Scalar(0.0))); // its own argument
            requireRefused(() -> x.exp()); // one tensor
            requireRefused(() -> torch.native_layer_norm(x, new long[] {16}, none, none, 1e-5)); // three
            AtenOperator flash = AtenOperator.of("aten::_scaled_dot_product_flash_attention", "");
            requireRefused(() -> flash.call(x, x, x, 0.0, false, false, null)); // nine, two of which are integers
            requireRefused(() -> x.split(1)); // a list
        }
    }
}
