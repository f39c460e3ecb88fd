package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.List;
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
        assertEquals("eps must be positive, not 0.0", message(() -> new RmsNorm(3, 0, CPU, FP32)));
        assertEquals("width must be at least 1, not -1", message(() -> new LayerNorm(-1, CPU, FP32)));
        assertEquals("in must be at least 1, not 0", message(() -> new Linear(0, 1, CPU, FP32)));
        assertEquals("out must be at least 1, not 0", message(() -> new Linear(1, 0, CPU, FP32)));
        assertEquals("count must be at least 1, not 0", message(() -> new Embedding(0, 1, 1, CPU, FP32)));
        assertTrue(message(() -> new Embedding(1, 1, -1, CPU, FP32)).startsWith("std must be finite and at least 0"));
    }

    @Test
    void rotaryEmbeddingChecksItsSizesAndItsInput() {
        assertEquals("theta must be positive, not 0.0", message(() -> new RotaryEmbedding(0, 8, 4, CPU, FP32)));
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
        assertEquals("logits must not be null", message(() -> Losses.crossEntropy(null, ids(0))));
        assertEquals("targets must not be null", message(() -> Losses.crossEntropy(x, null)));
    }
}
