package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Inputs that a layer does not accept: each gives one message that names the argument, before any native call. */
class LayerInputsTest extends ScopedTest {
    private static final Device CPU = Device.cpu();
    private static final DType FP32 = DType.FLOAT32;

    private static String message(Executable use) {
        return assertThrows(IllegalArgumentException.class, use).getMessage();
    }

    private static Tensor ids(long... values) {
        return Tensors.of(values, values.length);
    }

    @Test
    void anInputThatIsNullClosedOrUndefinedIsNamed() {
        Tensor closed = torch.ones(3);
        closed.close();
        for (NnModule layer : List.of(
                new RmsNorm(3, CPU, FP32),
                new LayerNorm(3, CPU, FP32),
                new Linear(3, 2, CPU, FP32),
                new Embedding(3, 2, 1, CPU, FP32))) {
            assertEquals("input must not be null", message(() -> layer.forward(null)));
            assertEquals("input is closed; its memory scope has ended", message(() -> layer.forward(closed)));
            assertTrue(message(() -> layer.forward(new Tensor())).startsWith("input is undefined"));
            layer.close();
            var e = assertThrows(IllegalStateException.class, () -> layer.forward(torch.ones(3)));
            assertEquals(layer.getClass().getSimpleName() + " is closed", e.getMessage());
        }
    }

    @Test
    void parametersMustBeFloatingPoint() {
        DType type = DType.INT64;
        assertEquals("dtype must be floating-point, not int64", message(() -> new Linear(3, 2, CPU, type)));
        assertEquals("dtype must be floating-point, not int64", message(() -> new Embedding(3, 2, 1, CPU, type)));
        assertEquals(
                "dtype must be floating-point, not int64", message(() -> new RotaryEmbedding(1e4, 2, 3, CPU, type)));
        assertEquals("parameter weight must be floating-point, not int64", message(() -> new RmsNorm(3, CPU, type)));
        assertEquals("parameter weight must be floating-point, not int64", message(() -> new LayerNorm(3, CPU, type)));
    }

    @Test
    void anInputOfAnotherWidthIsRefused() {
        for (NnModule layer :
                List.of(new RmsNorm(8, CPU, FP32), new LayerNorm(8, CPU, FP32), new Linear(8, 2, CPU, FP32))) {
            assertEquals(
                    "input must have 8 columns, not the shape [2, 1]",
                    message(() -> layer.forward(torch.ones(2, 1))),
                    layer.getClass().getSimpleName());
            assertEquals(
                    "input must have 8 columns, not the shape []",
                    message(() -> layer.forward(Tensors.of(new float[] {1}))));
            assertEquals(0, layer.forward(torch.ones(0, 8)).size(0), "no rows");
            assertEquals("input must be floating-point, not int64", message(() -> layer.forward(ids(new long[8]))));
        }
    }

    @Test
    void aLinearLayerRefusesADtypeThatAutocastDoesNotCast() {
        try (var layer = new Linear(8, 2, CPU, FP32)) {
            Tensor wide = torch.ones(new long[] {2, 8}, CPU.options(DType.FLOAT64));
            List<Executable> calls = List.of(
                    () -> layer.forward(wide),
                    () -> layer.unread(wide),
                    () -> Linear.jointly(wide, layer, layer),
                    () -> Linear.jointlyUnread(wide, layer, layer));
            for (DType autocast : List.of(FP32, DType.BFLOAT16)) {
                for (Executable call : calls) {
                    try (var scope = Autocast.of(CPU, autocast)) {
                        assertEquals(
                                "input must have the dtype of the weight, fp32, not fp64, unless autocast casts both",
                                message(call));
                    }
                }
            }
        }
    }

    @Test
    void aSharedWeightIsAMatrixThatIsNotClosed() {
        assertEquals("sharedWeight must not be null", message(() -> new Linear(null)));
        assertEquals("sharedWeight must have the shape [out, in], not [3]", message(() -> new Linear(torch.ones(3))));
        var table = new Embedding(5, 2, 1, CPU, FP32);
        assertTrue(message(() -> new Linear(table.weight().neg())).startsWith("parameter weight must not be computed"));
        var tied = new Linear(table.weight());
        Tensor x = torch.ones(1, 2);
        assertTrue(torch.equal(table.weight().sum(1), tied.forward(x).view(5)));
        table.close();
        String closed = "weight is closed; its memory scope has ended";
        assertEquals(closed, message(() -> tied.forward(x)));
        assertEquals(closed, message(() -> Linear.jointly(x, tied, tied)));
        tied.close();
        for (Executable use :
                List.<Executable>of(() -> tied.forward(x), () -> tied.unread(x), () -> Linear.jointly(x, tied, tied))) {
            var e = assertThrows(IllegalStateException.class, use);
            assertEquals("Linear is closed", e.getMessage());
        }
    }

    @Test
    void indicesOutOfRangeAreRefused() {
        try (var table = new Embedding(5, 2, 1, CPU, FP32)) {
            for (long index : new long[] {-1, 5, Long.MAX_VALUE}) {
                assertEquals(
                        "indices must be from 0 to 4, the last row of the table",
                        message(() -> table.forward(ids(0, index))));
            }
            assertEquals("indices must be int64 or int32, not fp32", message(() -> table.forward(torch.ones(3))));
            assertEquals(0, table.forward(ids()).size(0));
        }
    }

    @Test
    void sizesBelowOneAreRefused() {
        assertEquals("width must be at least 1, not 0", message(() -> new RmsNorm(0, CPU, FP32)));
        assertEquals("eps must be positive and finite, not 0.0", message(() -> new RmsNorm(3, 0, CPU, FP32)));
        assertEquals("width must be at least 1, not -1", message(() -> new LayerNorm(-1, CPU, FP32)));
        assertEquals("in must be at least 1, not 0", message(() -> new Linear(0, 1, CPU, FP32)));
        assertEquals("out must be at least 1, not 0", message(() -> new Linear(1, 0, CPU, FP32)));
        assertEquals("count must be at least 1, not 0", message(() -> new Embedding(0, 1, 1, CPU, FP32)));
        assertTrue(message(() -> new Embedding(1, 1, -1, CPU, FP32)).startsWith("std must be finite and at least 0"));
    }

    @Test
    void rotaryEmbeddingChecksItsSizesAndItsInput() {
        assertEquals(
                "theta must be positive and finite, not 0.0", message(() -> new RotaryEmbedding(0, 8, 4, CPU, FP32)));
        assertEquals(
                "headDim must be even and at least 2, not 7", message(() -> new RotaryEmbedding(1e4, 7, 4, CPU, FP32)));
        assertEquals(
                "headDim must be even and at least 2, not 0", message(() -> new RotaryEmbedding(1e4, 0, 4, CPU, FP32)));
        assertEquals(
                "contextLength must be at least 1, not -4", message(() -> new RotaryEmbedding(1e4, 8, -4, CPU, FP32)));
        assertTrue(message(() -> new RotaryEmbedding(1e4, 8, Integer.MAX_VALUE, CPU, FP32))
                .startsWith("contextLength 2147483647 × headDim 8 must be below 2^31"));
        try (var rotary = new RotaryEmbedding(1e4, 8, 4, CPU, FP32)) {
            assertEquals(
                    "x must have the shape [batch, at most 4 positions, heads · 8], not [1, 5, 8]",
                    message(() -> rotary.apply(torch.ones(1, 5, 8))));
            assertTrue(message(() -> rotary.apply(torch.ones(4, 8))).endsWith("not [4, 8]"));
            assertTrue(message(() -> rotary.apply(torch.ones(1, 4, 12))).endsWith("not [1, 4, 12]"));
            assertEquals("x must not be null", message(() -> rotary.apply(null)));
            assertEquals(
                    "x must be floating-point, not int64",
                    message(() -> rotary.apply(ids(new long[32]).view(1, 4, 8))));
            Tensor wide = torch.randn(1, 4, 9);
            for (Tensor x : List.of(wide.narrow(2, 1, 8), torch.randn(1, 8, 4).transpose(1, 2))) {
                assertTrue(torch.equal(rotary.apply(x.contiguous()), rotary.apply(x)), "not contiguous");
            }
        }
    }

    @Test
    void attentionAndLossNameAMissingInput() {
        Tensor x = torch.ones(1, 2, 8);
        Tensor closed = torch.ones(1, 2, 8);
        closed.close();
        for (Attention attention : List.of(new PlainAttention(), new ScaledDotProductAttention())) {
            assertEquals("q must not be null", message(() -> attention.apply(null, x, x, true)));
            assertEquals("k must not be null", message(() -> attention.apply(x, null, x, true)));
            assertTrue(message(() -> attention.apply(x, x, closed, true)).startsWith("v is closed"));
        }
        for (Attention attention : List.of(new PlainAttention(), new ScaledDotProductAttention())) {
            String shapes = "q, k and v must have the shapes [B, H, T, d], [B, H, S, d] and [B, H, S, d], or the same"
                    + " without H, not ";
            assertEquals(
                    shapes + "[1, 2, 8], [1, 2, 6] and [1, 2, 6]",
                    message(() -> attention.apply(x, torch.ones(1, 2, 6), torch.ones(1, 2, 6), true)));
            assertEquals(
                    shapes + "[1, 2, 8], [3, 2, 8] and [3, 2, 8]",
                    message(() -> attention.apply(x, torch.ones(3, 2, 8), torch.ones(3, 2, 8), true)));
            assertEquals(
                    shapes + "[1, 2, 8], [1, 2, 8] and [1, 5, 8]",
                    message(() -> attention.apply(x, x, torch.ones(1, 5, 8), true)));
            assertEquals(
                    shapes + "[8], [8] and [8]",
                    message(() -> attention.apply(torch.ones(8), torch.ones(8), torch.ones(8), true)));
        }
        assertEquals("logits must not be null", message(() -> Losses.crossEntropy(null, ids(0))));
        assertEquals("targets must not be null", message(() -> Losses.crossEntropy(x, null)));
    }

    @Test
    void aModelNeedsTokens() {
        try (var model = new TransformerLM(TinyConfig.of(ModelEdition.SPRING_2025), CPU)) {
            for (Tensor empty : List.of(ids().reshape(1, 0), ids().reshape(0, 4))) {
                assertTrue(message(() -> model.forward(empty)).startsWith("ids must contain at least one token"));
            }
        }
    }

    @Test
    void gradientsAndOptimizersNameAMissingTensor() {
        assertEquals("norm must not be null", message(() -> GradientClipping.factor(null, 1)));
        assertEquals(
                "parameter must not be null", message(() -> GradientClipping.norm(Collections.singletonList(null))));
        assertEquals("loss must not be null", message(() -> new GradScaler(CPU).scale(null)));
        assertEquals("output 0 must not be null", message(() -> Backward.of((Tensor) null)));
        Tensor leaf = torch.ones(1).set_requires_grad(true);
        assertEquals(
                "gradient 0 must not be null", message(() -> Backward.of(leaf).with((Tensor) null)));
        assertEquals("input 0 must not be null", message(() -> Backward.of(leaf).gradients((Tensor) null)));
        assertEquals(
                "batchSize 2147483647 × contextLength 2 must be at most 2147483647 tokens",
                message(() -> Batches.random(10, Integer.MAX_VALUE, 2, CPU, 0)));
        var e = assertThrows(NullPointerException.class, () -> new AdamW(Map.of("leaf", leaf), null));
        assertEquals("settings must not be null", e.getMessage());
    }
}
