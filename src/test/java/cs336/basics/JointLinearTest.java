package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.GradCheck;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class JointLinearTest extends ScopedTest {
    private static final int IN = 24;
    private static final int[] OUT = {16, 8, 40};

    /** Outputs of the layers for an input of shape [2, 5, IN]. */
    private interface Layers extends Function<Tensor, Tensor[]> {}

    private static Linear[] layers(Device device, DType dtype) {
        return Arrays.stream(OUT)
                .mapToObj(out -> new Linear(IN, out, device, dtype))
                .toArray(Linear[]::new);
    }

    private static Linear[] layersWithBias(Device device, DType dtype) {
        return Arrays.stream(OUT)
                .mapToObj(out -> {
                    var layer = new Linear(IN, out, true, device, dtype);
                    layer.namedParameters().get("bias").detach().normal_();
                    return layer;
                })
                .toArray(Linear[]::new);
    }

    private static Tensor input(Device device, DType dtype) {
        return torch.randn(new long[] {2, 5, IN}, device.options(dtype)).set_requires_grad(true);
    }

    /** Returns the used outputs, then the gradients of x and of each parameter. */
    private static List<Tensor> results(Layers function, List<Integer> used, Tensor x, Linear... layers) {
        Tensor[] outputs = function.apply(x);
        List<Tensor> results = new ArrayList<>();
        Tensor sum = torch.zeros(new long[0], x.options());
        for (int i : used) {
            results.add(outputs[i].detach());
            long n = outputs[i].numel(); // each output has its own gradient, which does not depend on its values
            Tensor gradient = torch.linspace(new Scalar(-1.0), new Scalar(1.0 + i), n, outputs[i].options());
            sum = sum.add(outputs[i].mul(gradient.view_as(outputs[i])).sum());
        }
        sum.backward();
        results.add(x.grad().clone());
        x.mutable_grad().reset();
        for (Linear layer : layers) {
            for (Tensor parameter : layer.ownParameters()) {
                Tensor gradient = parameter.grad();
                results.add(gradient.defined() ? gradient.clone() : torch.zeros_like(parameter));
            }
            layer.zeroGrad();
        }
        return results;
    }

    private static void agree(Device device, DType dtype, DType autocast, List<Integer> used, double bound) {
        agree(layers(device, dtype), device, dtype, autocast, used, bound);
        agree(layersWithBias(device, dtype), device, dtype, autocast, used, bound);
    }

    private static void agree(
            Linear[] layers, Device device, DType dtype, DType autocast, List<Integer> used, double bound) {
        Tensor x = input(device, dtype);
        Layers joint = in -> {
            try (var scope = Autocast.of(device, autocast)) {
                return Linear.jointly(in, layers);
            }
        };
        Layers separate = in -> {
            try (var scope = Autocast.of(device, autocast)) {
                return Linear.separately(in, layers);
            }
        };
        List<Tensor> expected = results(separate, used, x, layers);
        List<Tensor> got = results(joint, used, x, layers);
        for (int i = 0; i < expected.size(); i++) {
            assertEquals(expected.get(i).scalar_type().value, got.get(i).scalar_type().value);
            double[] reference = Tensors.toDoubles(expected.get(i));
            double largest = Arrays.stream(reference).map(Math::abs).max().orElseThrow();
            assertArrayEquals(reference, Tensors.toDoubles(got.get(i)), bound * largest, "value " + i);
        }
        Arrays.stream(layers).forEach(Linear::close);
    }

    private static void agreeInAllDtypes(Device device) {
        agree(device, DType.FLOAT64, DType.FLOAT32, List.of(0, 1, 2), 1e-14);
        agree(device, DType.FLOAT32, DType.FLOAT32, List.of(0, 1, 2), 1e-5);
        agree(device, DType.BFLOAT16, DType.FLOAT32, List.of(0, 1, 2), 0.02);
        agree(device, DType.FLOAT32, DType.BFLOAT16, List.of(0, 1, 2), 0.02);
    }

    @Test
    void outputsAndGradientsAreThoseOfSeparateLayers() {
        agreeInAllDtypes(Device.cpu());
    }

    @Test
    @Tag("gpu")
    void outputsAndGradientsAreThoseOfSeparateLayersOnAGpu() {
        agreeInAllDtypes(Device.cuda(0));
    }

    /** Checks results from index {@code from} on. */
    private static void equal(List<Tensor> expected, List<Tensor> got, int from) {
        for (int i = from; i < expected.size(); i++) {
            assertArrayEquals(Tensors.toDoubles(expected.get(i)), Tensors.toDoubles(got.get(i)), 1e-13, "value " + i);
        }
    }

    @Test
    void aLayerWithBiasAddsIt() {
        Linear[] layers = layersWithBias(Device.cpu(), DType.FLOAT64);
        Tensor x = input(Device.cpu(), DType.FLOAT64);
        Layers byHand = in -> Arrays.stream(layers)
                .map(layer -> in.matmul(layer.ownParameters().get(0).t())
                        .add(layer.ownParameters().get(1)))
                .toArray(Tensor[]::new);
        List<Tensor> expected = results(byHand, List.of(0, 2), x, layers);
        equal(expected, results(in -> Linear.separately(in, layers), List.of(0, 2), x, layers), 0);
        equal(expected, results(in -> Linear.jointly(in, layers), List.of(0, 2), x, layers), 0);
        equal(expected, results(in -> Linear.separatelyUnread(in, layers), List.of(0, 2), x, layers), 2);
        Arrays.stream(layers).forEach(Linear::close);
    }

    @Test
    void anUnusedOutputHasNoGradient() {
        agree(Device.cpu(), DType.FLOAT64, DType.FLOAT32, List.of(1), 1e-14);
        agree(Device.cpu(), DType.FLOAT64, DType.FLOAT32, List.of(0, 2), 1e-14);
    }

    @Test
    void unreadOutputsAreZerosWithTheGradientsOfSeparateLayers() {
        Linear[] layers = layers(Device.cpu(), DType.FLOAT64);
        Tensor x = input(Device.cpu(), DType.FLOAT64);
        List<Tensor> expected = results(in -> Linear.separately(in, layers), List.of(0, 2), x, layers);
        for (Layers unread :
                List.<Layers>of(in -> Linear.jointlyUnread(in, layers), in -> Linear.separatelyUnread(in, layers))) {
            List<Tensor> got = results(unread, List.of(0, 2), x, layers);
            for (int i = 0; i < expected.size(); i++) {
                boolean isOutput = i < 2;
                double[] values = isOutput
                        ? new double[Math.toIntExact(expected.get(i).numel())]
                        : Tensors.toDoubles(expected.get(i));
                assertArrayEquals(values, Tensors.toDoubles(got.get(i)), 1e-13, "value " + i);
            }
        }
        Arrays.stream(layers).forEach(Linear::close);
    }

    @Test
    void gradientsAndSecondDerivativesAreThoseOfTheFunction() {
        Linear[] layers = layers(Device.cpu(), DType.FLOAT64);
        Tensor x = input(Device.cpu(), DType.FLOAT64);
        Tensor[] inputs = {
            x,
            layers[0].ownParameters().get(0),
            layers[1].ownParameters().get(0),
            layers[2].ownParameters().get(0)
        };
        GradCheck.check(new Linear.JointLinear(true), inputs);
        GradCheck.checkDouble(new Linear.JointLinear(true), inputs);
        Arrays.stream(layers).forEach(Linear::close);
    }

    @Test
    void theActionBeforeAForwardPassRunsBeforeTheWeightIsRead() {
        Linear[] layers = layers(Device.cpu(), DType.FLOAT32);
        Tensor x = input(Device.cpu(), DType.FLOAT32);
        List<String> calls = new ArrayList<>();
        layers[1].beforeForward(() -> {
            calls.add("before");
            layers[1].ownParameters().get(0).detach().zero_();
        });
        Tensor[] outputs;
        try (var scope = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
            outputs = Linear.jointly(x, layers);
        }
        assertEquals(List.of("before"), calls);
        assertTrue(Arrays.stream(Tensors.toDoubles(outputs[1])).allMatch(value -> value == 0));
        Arrays.stream(layers).forEach(Linear::close);
    }

    @Test
    void theActionAfterAForwardPassReceivesTheOutputOfItsLayer() {
        Linear[] layers = layers(Device.cpu(), DType.FLOAT32);
        Tensor x = input(Device.cpu(), DType.FLOAT32);
        List<double[]> seen = new ArrayList<>();
        layers[1].afterForward(output -> seen.add(Tensors.toDoubles(output)));
        Tensor[] outputs = Linear.jointly(x, layers);
        assertEquals(1, seen.size());
        assertArrayEquals(Tensors.toDoubles(outputs[1]), seen.get(0));
        Linear.jointlyUnread(x, layers);
        assertEquals(2, seen.size());
        Arrays.stream(layers).forEach(Linear::close);
    }

    @Test
    void rejectsAnInputOfAnotherWidth() {
        Linear[] layers = layers(Device.cpu(), DType.FLOAT32);
        Tensor narrow = torch.zeros(2, IN - 1);
        var e = assertThrows(IllegalArgumentException.class, () -> Linear.jointly(narrow, layers));
        assertTrue(e.getMessage().contains(String.valueOf(IN)), e.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Linear.jointly(null, layers));
        Arrays.stream(layers).forEach(Linear::close);
    }
}
