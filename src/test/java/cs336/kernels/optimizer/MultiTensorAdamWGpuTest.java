package cs336.kernels.optimizer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWKernel.AdamWTensors;
import cs336.basics.AdamWSettings;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("gpu")
class MultiTensorAdamWGpuTest {
    private static final Device GPU = Device.cuda(0);
    private static final int[] SIZES = {1, 3, 4, 255, 1_024, 8_191, 8_192, 8_193, 100_003, 1 << 20};
    private static final int GUARD = 8; // elements before and after each parameter that must not change

    @ParameterizedTest
    @CsvSource({"DECAY_AFTER, 0", "DECAY_BEFORE, 0", "TORCH, 0", "TORCH, 1", "DECAY_AFTER, 3"})
    void tenStepsEqualThoseInDoublePrecision(AdamW.Order order, int misalignment) {
        Torch.seed(System.nanoTime());
        var options = new AdamWSettings(1e-2, 0.9, 0.999, 1e-8, 0.1, order);
        try (var all = MemoryScope.open()) {
            Map<String, Tensor> narrow = new LinkedHashMap<>();
            Map<String, Tensor> wide = new LinkedHashMap<>();
            List<Tensor> guarded = new ArrayList<>();
            for (int size : SIZES) {
                Tensor memory =
                        torch.full(new long[] {size + 2 * GUARD}, new Scalar(Double.NaN), GPU.options(DType.FLOAT32));
                Tensor parameter = memory.narrow(0, GUARD + misalignment, size);
                parameter.copy_(torch.randn(new long[] {size}, GPU.options(DType.FLOAT32)));
                guarded.add(memory);
                narrow.put("p" + size, parameter.detach().set_requires_grad(true));
                wide.put(
                        "p" + size,
                        parameter
                                .to(Device.cpu().toTorch(), DType.FLOAT64.scalarType())
                                .detach()
                                .set_requires_grad(true));
            }
            try (var onGpu = new AdamW(narrow, options);
                    var inDouble = new AdamW(wide, options)) {
                for (int i = 0; i < 10; i++) {
                    step(narrow, wide, onGpu, inDouble, i);
                }
            }
            narrow.forEach((name, parameter) -> assertClose(name, wide.get(name), parameter));
            for (int i = 0; i < SIZES.length; i++) {
                Tensor nan = guarded.get(i).isnan().sum();
                assertEquals(2 * GUARD, nan.item_long(), "memory around a parameter of " + SIZES[i] + " elements");
            }
        }
    }

    /** A rank may own no row of a parameter. */
    @Test
    void parameterWithoutElementsIsAccepted() {
        try (var all = MemoryScope.open()) {
            Tensor empty =
                    torch.zeros(new long[] {0, 8}, GPU.options(DType.FLOAT32)).set_requires_grad(true);
            Tensor full =
                    torch.zeros(new long[] {3, 8}, GPU.options(DType.FLOAT32)).set_requires_grad(true);
            try (var adamW = new AdamW(Map.of("empty", empty, "full", full), AdamWSettings.of(1e-2))) {
                empty.mutable_grad().put(torch.ones_like(empty));
                full.mutable_grad().put(torch.ones_like(full));
                adamW.step();
            }
            assertTrue(full.lt(new Scalar(0)).all().item_bool());
        }
    }

    @Test
    void autogradSeesThatAParameterHasChanged() {
        try (var all = MemoryScope.open()) {
            Tensor w = torch.ones(new long[] {8}, GPU.options(DType.FLOAT32)).set_requires_grad(true);
            try (var adamW = new AdamW(Map.of("w", w), AdamWSettings.of(1e-2))) {
                Tensor later = w.mul(w).sum();
                w.mul(w).sum().backward();
                adamW.step();
                var e = assertThrows(RuntimeException.class, later::backward);
                assertTrue(e.getMessage().contains("modified by an inplace operation"), e.getMessage());
            }
        }
    }

    private static void step(Map<String, Tensor> narrow, Map<String, Tensor> wide, AdamW onGpu, AdamW inDouble, int i) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            double scale = Math.pow(10, i % 4 - 2);
            narrow.forEach((name, parameter) -> {
                Tensor gradient = torch.randn_like(parameter).mul_(new Scalar(scale));
                parameter.mutable_grad().put(gradient);
                wide.get(name).mutable_grad().put(gradient.to(Device.cpu().toTorch(), DType.FLOAT64.scalarType()));
            });
            onGpu.step();
            inDouble.step();
            onGpu.zeroGrad();
            inDouble.zeroGrad();
        }
    }

    /** Ten steps of 0.01 move a parameter by about 0.1 at most; the bound is a few ulps of 1. */
    private static void assertClose(String name, Tensor expected, Tensor actual) {
        double[] e = Tensors.toDoubles(expected);
        double[] a = Tensors.toDoubles(actual);
        for (int i = 0; i < e.length; i++) {
            double bound = 8 * Math.ulp(1f) * Math.max(1, Math.abs(e[i]));
            assertTrue(Math.abs(e[i] - a[i]) <= bound, name + "[" + i + "]: " + e[i] + " and " + a[i]);
        }
    }

    private static AdamWTensors withoutCopies(List<Tensor> tensors) {
        return new AdamWTensors(tensors, tensors, tensors, Collections.singletonList(null));
    }

    /** Steps with bf16 gradients, a gradient factor and 16-bit copies against the same steps with fp32 gradients. */
    @ParameterizedTest
    @CsvSource({"BFLOAT16, 0", "FLOAT16, 0", "BFLOAT16, 1", "FLOAT16, 3"})
    void narrowGradientsAndCopiesGiveTheSameParameters(DType copyType, int misalignment) {
        Torch.seed(System.nanoTime());
        try (var all = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Map<String, Tensor> narrow = new LinkedHashMap<>();
            Map<String, Tensor> wide = new LinkedHashMap<>();
            for (int size : SIZES) {
                Tensor initial = torch.randn(new long[] {size + misalignment}, GPU.options(DType.FLOAT32));
                narrow.put("p" + size, initial.narrow(0, misalignment, size).set_requires_grad(true));
                wide.put(
                        "p" + size,
                        initial.clone().narrow(0, misalignment, size).set_requires_grad(true));
            }
            try (var first = new AdamW(narrow, AdamWSettings.of(1e-2));
                    var second = new AdamW(wide, AdamWSettings.of(1e-2))) {
                for (int i = 0; i < 5; i++) {
                    Tensor factor = torch.rand(new long[0], GPU.options(DType.FLOAT32));
                    narrow.forEach((name, parameter) -> {
                        Tensor gradient = torch.randn_like(parameter).to(DType.BFLOAT16.scalarType());
                        boolean isNarrow = !name.equals("p4"); // a list of both dtypes
                        parameter.mutable_grad().put(isNarrow ? gradient : gradient.to(DType.FLOAT32.scalarType()));
                        wide.get(name)
                                .mutable_grad()
                                .put(gradient.to(DType.FLOAT32.scalarType()).mul(factor));
                    });
                    if (i == 1) {
                        narrow.keySet().stream()
                                .filter(name -> !name.equals("p3"))
                                .forEach(name -> {
                                    assertEquals(
                                            copyType,
                                            DType.of(first.copies(List.of(name), copyType)
                                                    .orElseThrow()
                                                    .get(0)));
                                });
                    }
                    first.step(factor);
                    second.step();
                }
                narrow.forEach((name, parameter) -> {
                    assertTrue(parameter.equal(wide.get(name)), name);
                    Tensor copy =
                            first.copies(List.of(name), copyType).orElseThrow().get(0);
                    assertTrue(copy.equal(parameter.to(copyType.scalarType())), "copy of " + name);
                });
            }
        }
    }

    @Test
    void otherDtypesAndDevicesAreNotSupported() {
        var kernel = new MultiTensorAdamW();
        try (var scope = MemoryScope.open()) {
            List<Tensor> fp32 = List.of(torch.ones(new long[] {4}, GPU.options(DType.FLOAT32)));
            List<Tensor> bf16 = List.of(torch.ones(new long[] {4}, GPU.options(DType.BFLOAT16)));
            List<Tensor> cpu = List.of(torch.ones(new long[] {4}, Device.cpu().options(DType.FLOAT32)));
            assertTrue(kernel.prepare(withoutCopies(fp32)).isPresent());
            assertTrue(kernel.prepare(withoutCopies(bf16)).isEmpty());
            assertTrue(kernel.prepare(withoutCopies(cpu)).isEmpty());
        }
    }
}
