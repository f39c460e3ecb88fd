package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.checkpointing.CheckpointPolicy;
import cs336.profile.memory.Allocation;
import cs336.profile.memory.MemoryProfile;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class LinearCrossEntropyTest extends ScopedTest {
    private static final int VOCABULARY = 37;
    private static final int WIDTH = 12;

    private static Tensor random(Device device, DType dtype, long... shape) {
        return torch.randn(shape, device.options(dtype));
    }

    private static Tensor targets(Device device, int... shape) {
        int n = Arrays.stream(shape).reduce(1, (a, b) -> a * b);
        long[] values = new Random().longs(n, 0, VOCABULARY).toArray();
        long[] sizes = Arrays.stream(shape).asLongStream().toArray();
        return Tensors.of(values, sizes).to(device.toTorch(), DType.INT64.scalarType());
    }

    private static Tensor plain(Tensor x, Tensor weight, Tensor targets) {
        return Losses.crossEntropy(torch.linear(x, weight), targets);
    }

    /** The loss and the gradients of the leaves, with an output gradient that is not 1. */
    private static List<double[]> gradients(Supplier<Tensor> loss, Tensor... leaves) {
        Tensor value = loss.get();
        value.mul(new Scalar(3.0)).backward();
        var all = new ArrayList<double[]>();
        all.add(Tensors.toDoubles(value));
        for (Tensor leaf : leaves) {
            all.add(Tensors.toDoubles(leaf.grad()));
            leaf.mutable_grad().reset();
        }
        return all;
    }

    private static void assertClose(List<double[]> expected, List<double[]> actual, double tolerance) {
        for (int i = 0; i < expected.size(); i++) {
            double largest = Arrays.stream(expected.get(i)).map(Math::abs).max().orElseThrow();
            assertArrayEquals(expected.get(i), actual.get(i), tolerance * largest, "value " + i);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 4, 5, 10, 11, Integer.MAX_VALUE})
    void lossAndGradientsAreThoseOfAllLogits(int rows) {
        requireSame(Device.cpu(), rows);
    }

    @Test
    @Tag("gpu")
    void lossAndGradientsAreThoseOfAllLogitsOnAGpu() {
        requireSame(Device.cuda(0), 4);
        requireSame(Device.cuda(0), 10);
    }

    private static void requireSame(Device device, int rows) {
        Tensor x = random(device, DType.FLOAT64, 2, 5, WIDTH).set_requires_grad(true);
        Tensor weight = random(device, DType.FLOAT64, VOCABULARY, WIDTH).set_requires_grad(true);
        Tensor targets = targets(device, 2, 5);
        assertClose(
                gradients(() -> plain(x, weight, targets), x, weight),
                gradients(() -> LinearCrossEntropy.of(x, weight, targets, rows), x, weight),
                1e-13);
    }

    @Test
    void largeLogitsDoNotOverflow() {
        Tensor x = random(Device.cpu(), DType.FLOAT32, 6, WIDTH)
                .mul(new Scalar(1e3))
                .set_requires_grad(true);
        Tensor weight = random(Device.cpu(), DType.FLOAT32, VOCABULARY, WIDTH).set_requires_grad(true);
        Tensor targets = targets(Device.cpu(), 6);
        assertClose(
                gradients(() -> plain(x, weight, targets), x, weight),
                gradients(() -> LinearCrossEntropy.of(x, weight, targets, 4), x, weight),
                1e-4);
    }

    @Test
    void onlyGradientsThatAreNeededAreComputed() {
        Tensor x = random(Device.cpu(), DType.FLOAT64, 5, WIDTH).set_requires_grad(true);
        Tensor weight = random(Device.cpu(), DType.FLOAT64, VOCABULARY, WIDTH).set_requires_grad(true);
        Tensor fixedX = x.detach();
        Tensor fixedWeight = weight.detach();
        Tensor targets = targets(Device.cpu(), 5);
        assertClose(
                gradients(() -> plain(x, fixedWeight, targets), x),
                gradients(() -> LinearCrossEntropy.of(x, fixedWeight, targets, 2), x),
                1e-13);
        assertClose(
                gradients(() -> plain(fixedX, weight, targets), weight),
                gradients(() -> LinearCrossEntropy.of(fixedX, weight, targets, 2), weight),
                1e-13);
        try (var noGrad = NoGrad.open()) {
            Tensor loss = LinearCrossEntropy.of(x, weight, targets, 2);
            assertFalse(loss.requires_grad());
            assertEquals(plain(x, weight, targets).item_double(), loss.item_double(), 1e-13);
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void underAutocastTheErrorsAreThoseOfTheNarrowType(DType dtype) {
        requireCloseUnderAutocast(Device.cpu(), dtype);
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BFLOAT16", "FLOAT16"})
    @Tag("gpu")
    void underAutocastTheErrorsAreThoseOfTheNarrowTypeOnAGpu(DType dtype) {
        requireCloseUnderAutocast(Device.cuda(0), dtype);
    }

    private static void requireCloseUnderAutocast(Device device, DType dtype) {
        Tensor x = random(device, DType.FLOAT32, 64, WIDTH).set_requires_grad(true);
        Tensor weight = random(device, DType.FLOAT32, VOCABULARY, WIDTH).set_requires_grad(true);
        Tensor targets = targets(device, 64);
        List<double[]> exact = gradients(() -> plain(x, weight, targets), x, weight);
        List<double[]> narrow = gradients(
                () -> {
                    try (var autocast = Autocast.of(device, dtype)) {
                        Tensor loss = LinearCrossEntropy.of(x, weight, targets, 24);
                        assertEquals(DType.FLOAT32, DType.of(loss));
                        return loss;
                    }
                },
                x,
                weight);
        assertClose(exact, narrow, dtype == DType.BFLOAT16 ? 0.02 : 0.003);
    }

    /** Each of 4,096 rows adds the same small value. In bf16 the sum would stop growing at 256 times this value. */
    @Test
    void theGradientOfTheWeightIsAccumulatedInFp32() {
        int n = 4096;
        Tensor x = torch.ones(new long[] {n, 1}, Device.cpu().options(DType.BFLOAT16));
        Tensor weight = torch.zeros(new long[] {2, 1}, Device.cpu().options(DType.FLOAT32))
                .set_requires_grad(true);
        Tensor targets = torch.zeros(new long[] {n}, Device.cpu().options(DType.INT64));
        List<double[]> found = gradients(() -> LinearCrossEntropy.of(x, weight, targets, 1), weight);
        assertArrayEquals(new double[] {Math.log(2)}, found.get(0), 1e-5);
        assertArrayEquals(new double[] {-1.5, 1.5}, found.get(1), 1e-5);
    }

    @Test
    void noAllocationIsLargerThanTheLogitsOfAChunk() {
        int n = 256;
        int rows = 16;
        Tensor x = random(Device.cpu(), DType.FLOAT32, n, WIDTH).set_requires_grad(true);
        Tensor weight = random(Device.cpu(), DType.FLOAT32, VOCABULARY, WIDTH).set_requires_grad(true);
        Tensor targets = targets(Device.cpu(), n);
        long chunk = (long) rows * VOCABULARY * Float.BYTES;
        long gradients = (long) (n + VOCABULARY) * WIDTH * Float.BYTES;
        try (var profile = MemoryProfile.start(Device.cpu());
                var scope = MemoryScope.open()) {
            Backward.of(LinearCrossEntropy.of(x, weight, targets, rows)).run();
            var record = profile.stop();
            long before = 0;
            long peak = record.bytes(record.peakEvent(0, record.events())) - before;
            // The gradients, saved and scaled; the logits of a chunk with one copy.
            assertTrue(peak <= 2 * gradients + 3 * chunk, peak + " bytes");
            long largest = record.allocations().stream()
                    .mapToLong(Allocation::bytes)
                    .max()
                    .orElseThrow();
            assertEquals(Math.max(chunk, (long) n * WIDTH * Float.BYTES), largest);
        }
    }

    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void theLossOfAModelIsThatOfItsLogits(ModelEdition edition) {
        var config = TransformerConfig.builder()
                .edition(edition)
                .vocabSize(VOCABULARY)
                .contextLength(8)
                .dModel(8)
                .numLayers(3)
                .numHeads(2)
                .dFf(16)
                .normalization("rmsnorm")
                .attention("plain")
                .build()
                .withCheckpointing(CheckpointPolicy.recursive());
        try (var model = new TransformerLM(config, Device.cpu(), DType.FLOAT64)) {
            Batches.Batch batch =
                    Batches.random(VOCABULARY, 2, 8, Device.cpu(), 3).next();
            Tensor[] parameters = model.parameters().toArray(new Tensor[0]);
            assertClose(
                    gradients(() -> Losses.crossEntropy(model.forward(batch.inputs()), batch.targets()), parameters),
                    gradients(() -> model.loss(batch.inputs(), batch.targets(), 5), parameters),
                    1e-12);
        }
    }

    @Test
    void wrongArgumentsAreNamed() {
        Tensor x = random(Device.cpu(), DType.FLOAT32, 5, WIDTH);
        Tensor weight = random(Device.cpu(), DType.FLOAT32, VOCABULARY, WIDTH);
        Tensor targets = targets(Device.cpu(), 5);
        assertMessage("rows must be at least 1, not 0", () -> LinearCrossEntropy.of(x, weight, targets, 0));
        assertMessage("x must", () -> LinearCrossEntropy.of(null, weight, targets, 1));
        assertMessage("weight must be [V, D]", () -> LinearCrossEntropy.of(x, weight.t(), targets, 1));
        assertMessage(
                "floating-point", () -> LinearCrossEntropy.of(x.to(DType.INT64.scalarType()), weight, targets, 1));
        assertMessage(
                "targets must have the shape", () -> LinearCrossEntropy.of(x, weight, targets(Device.cpu(), 4), 1));
        assertMessage("targets must be int64", () -> LinearCrossEntropy.of(x, weight, x, 1));
        assertMessage(
                "targets must be from 0 to 36",
                () -> LinearCrossEntropy.of(x, weight, targets.add(new Scalar(100L)), 1));
    }

    private static void assertMessage(String message, Supplier<Object> action) {
        String actual =
                assertThrows(IllegalArgumentException.class, action::get).getMessage();
        assertTrue(actual.contains(message), actual);
    }
}
