package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class AutocastTest {
    private final Device cpu = Device.cpu();

    @Test
    void matmulsAreNarrowInsideAndWideOutside() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(4, 4);
            try (var autocast = Autocast.of(cpu, DType.BFLOAT16)) {
                assertEquals(DType.BFLOAT16, DType.of(x.matmul(x)));
            }
            assertEquals(DType.FLOAT32, DType.of(x.matmul(x)));
        }
    }

    @Test
    void fp32InsideBf16DisablesAutocastUntilItCloses() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(4, 4);
            try (var narrow = Autocast.of(cpu, DType.BFLOAT16)) {
                try (var wide = Autocast.of(cpu, DType.FLOAT32)) {
                    assertEquals(DType.FLOAT32, DType.of(x.matmul(x)));
                }
                assertEquals(DType.BFLOAT16, DType.of(x.matmul(x)));
            }
        }
    }

    @Test
    void closingTwiceChangesNothing() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(4, 4);
            try (var outer = Autocast.of(cpu, DType.BFLOAT16)) {
                var inner = Autocast.of(cpu, DType.FLOAT32);
                inner.close();
                inner.close();
                assertEquals(DType.BFLOAT16, DType.of(x.matmul(x)));
            }
        }
    }

    @Test
    void changedParameterIsCastAgainInTheNextScope() {
        try (var scope = MemoryScope.open()) {
            Tensor weight = torch.ones(2, 2).set_requires_grad(true);
            Tensor x = torch.ones(2, 2);
            try (var autocast = Autocast.of(cpu, DType.BFLOAT16)) {
                assertEquals(8.0f, x.matmul(weight).sum().item_float());
            }
            try (var noGrad = NoGrad.open()) {
                weight.add_(torch.ones(2, 2));
            }
            try (var autocast = Autocast.of(cpu, DType.BFLOAT16)) {
                assertEquals(16.0f, x.matmul(weight).sum().item_float());
            }
        }
    }

    @Test
    void otherDtypesAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> Autocast.of(cpu, DType.INT64));
    }
}
