package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Backward;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class BackwardHookTest {
    @Test
    void actionsRunInTheOrderOfTheBackwardPassAndBeforeTheGradientsOfTheirFunctions() {
        try (var scope = MemoryScope.open()) {
            List<String> calls = new ArrayList<>();
            Tensor x = torch.ones(3).set_requires_grad(true);
            Tensor weight = torch.ones(3).set_requires_grad(true);
            try (var first =
                            new BackwardHook(() -> calls.add("first " + x.grad().defined()));
                    var second = new BackwardHook(() -> {
                        assertTrue(BackwardHook.isInBackwardPass());
                        calls.add("second " + weight.grad().defined());
                    })) {
                for (int pass = 0; pass < 2; pass++) {
                    Tensor y = torch.tanh(x);
                    first.register(y);
                    Tensor z = y.mul(weight);
                    second.register(z);
                    z.add(z).sum().backward(); // two uses of one tensor
                    x.mutable_grad().reset();
                    weight.mutable_grad().reset();
                }
            }
            assertEquals(List.of("second false", "first false", "second false", "first false"), calls);
            assertFalse(BackwardHook.isInBackwardPass());
        }
    }

    @Test
    void exceptionsReachTheCallerAndClosedHooksFail() {
        try (var scope = MemoryScope.open()) {
            var hook = new BackwardHook(() -> {
                throw new ArithmeticException("no gradient today");
            });
            Tensor y = torch.tanh(torch.ones(1).set_requires_grad(true));
            hook.register(y);
            assertEquals(
                    "no gradient today",
                    assertThrows(
                                    ArithmeticException.class,
                                    () -> Backward.of(y).retainGraph().run())
                            .getMessage());
            hook.close();
            assertEquals(
                    "a backward pass reached a tensor whose hook is closed",
                    assertThrows(
                                    IllegalStateException.class,
                                    () -> Backward.of(y).run())
                            .getMessage());
        }
    }
}
