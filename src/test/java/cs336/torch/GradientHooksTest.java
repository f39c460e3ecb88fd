package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.profile.HostEvent;
import cs336.profile.Profiler;
import cs336.profile.ProfilerOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class GradientHooksTest {
    private static List<Tensor> weights(int count) {
        List<Tensor> weights = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Tensor weight = torch.randn(new long[] {4, 4}, Device.cpu().options(DType.FLOAT64));
            weights.add(weight.set_requires_grad(true));
        }
        return weights;
    }

    private static Tensor chain(Tensor x, List<Tensor> weights) {
        for (Tensor weight : weights) {
            x = torch.tanh(x.matmul(weight));
        }
        return x.sum();
    }

    private static Tensor input() {
        return torch.randn(new long[] {3, 4}, Device.cpu().options(DType.FLOAT64));
    }

    @Test
    void aReportedGradientIsCompleteEvenIfTheParameterIsUsedSeveralTimes() {
        try (var scope = MemoryScope.open()) {
            List<Tensor> all = weights(4);
            List<Tensor> used = List.of(all.get(0), all.get(1), all.get(0), all.get(2), all.get(0));
            Map<Integer, double[]> seen = new TreeMap<>();
            List<Integer> order = new ArrayList<>();
            try (var hooks = GradientHooks.of(all, i -> {}, i -> {
                order.add(i);
                seen.put(i, Tensors.toDoubles(all.get(i).grad()));
            })) {
                for (int pass = 0; pass < 2; pass++) { // the second pass accumulates
                    order.clear();
                    // Two forward passes, one backward.
                    chain(input(), used).add(chain(input(), used)).backward();
                    hooks.flush();
                    hooks.flush();
                    assertEquals(List.of(2, 1, 0), order);
                    for (int i = 0; i < 3; i++) {
                        assertArrayEquals(Tensors.toDoubles(all.get(i).grad()), seen.get(i));
                    }
                }
            }
            order.clear();
            chain(input(), used).backward();
            assertEquals(List.of(), order, "the hooks are removed");
        }
    }

    @Test
    void gradientsAreNotCopied() {
        try (var scope = MemoryScope.open()) {
            List<Tensor> all = weights(3);
            Tensor x = input();
            try (var hooks = GradientHooks.of(all, i -> {}, i -> {});
                    var profiler = Profiler.start(ProfilerOptions.standard().cpuOnly())) {
                Backward.of(chain(x, all)).run();
                hooks.flush();
                List<String> operators = profiler.stop().trace().host().stream()
                        .map(HostEvent::name)
                        .toList();
                assertTrue(operators.contains("torch::autograd::AccumulateGrad"));
                assertFalse(operators.contains("aten::copy_"), operators::toString);
            }
        }
    }

    @Test
    void anExceptionOfTheListenerReachesTheCallerOfTheBackwardPass() {
        try (var scope = MemoryScope.open()) {
            List<Tensor> all = weights(3);
            try (var hooks = GradientHooks.of(all, i -> {}, i -> {
                throw new IllegalStateException("no " + i);
            })) {
                var error = assertThrows(
                        IllegalStateException.class,
                        () -> Backward.of(chain(input(), all)).run());
                assertEquals("no 2", error.getMessage());
            }
        }
    }

    @Test
    void aMissingFlushIsNamedIfTheLateReportFails() {
        try (var scope = MemoryScope.open()) {
            List<Tensor> all = weights(3);
            List<Integer> ready = new ArrayList<>();
            try (var hooks = GradientHooks.of(all, i -> {}, i -> {
                Tensors.requireDefined("gradient", all.get(i).grad());
                ready.add(i);
            })) {
                chain(input(), all).backward();
                all.forEach(weight -> weight.mutable_grad().reset());
                var error = assertThrows(
                        IllegalStateException.class,
                        () -> Backward.of(chain(input(), all)).run());
                assertEquals(
                        "the gradient of parameter 0 was reported only in the next backward pass, because flush() was not"
                                + " called after its own",
                        error.getMessage());
                assertEquals(List.of(2, 1), ready);
                hooks.flush();
                chain(input(), all).backward();
                hooks.flush();
                assertEquals(List.of(2, 1, 2, 1, 0), ready);
            }
        }
    }

    @Test
    void anExceptionBeforeTheAccumulationLeavesTheGradientUnchanged() {
        try (var scope = MemoryScope.open()) {
            List<Tensor> all = weights(3);
            chain(input(), all).backward();
            double[] gradient = Tensors.toDoubles(all.get(2).grad());
            List<Integer> ready = new ArrayList<>();
            try (var hooks = GradientHooks.of(
                    all,
                    i -> {
                        throw new IllegalStateException("not " + i);
                    },
                    ready::add)) {
                var error = assertThrows(
                        IllegalStateException.class,
                        () -> Backward.of(chain(input(), all)).run());
                assertEquals("not 2", error.getMessage());
                hooks.flush();
            }
            assertArrayEquals(gradient, Tensors.toDoubles(all.get(2).grad()));
            assertEquals(List.of(), ready);
        }
    }

    @Test
    void onlyLeavesThatRequireGradientsHaveHooks() {
        try (var scope = MemoryScope.open()) {
            Tensor weight = weights(1).get(0);
            var error = assertThrows(
                    IllegalArgumentException.class,
                    () -> GradientHooks.of(List.of(weight, weight.mul(weight)), i -> {}, i -> {}));
            assertTrue(error.getMessage().startsWith("parameter 1 "), error.getMessage());
            assertThrows(IllegalArgumentException.class, () -> GradientHooks.of(List.of(input()), i -> {}, i -> {}));
        }
    }
}
