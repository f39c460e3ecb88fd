package cs336.basics;

import static cs336.basics.Reference.FLOAT32_ULP;
import static cs336.basics.Reference.FLOAT64;
import static cs336.basics.Reference.assertClose;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.ScopedTest;
import cs336.torch.TensorJson;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class LossesTest extends ScopedTest {

    /** The last row of the reference has logits in the thousands, whose exponentials overflow. */
    @ParameterizedTest
    @EnumSource(names = {"FLOAT64", "FLOAT32"})
    void crossEntropyAndItsGradientAreTheReferences(DType dtype) {
        TensorJson reference = Reference.read("parts.json").get("cross_entropy");
        Tensor logits =
                reference.get("logits").tensor().to(dtype.scalarType()).clone().set_requires_grad(true);
        Tensor loss = Losses.crossEntropy(logits, reference.get("targets").tensor());
        loss.backward();
        double tolerance = dtype == DType.FLOAT64 ? FLOAT64 : 4 * FLOAT32_ULP;
        assertEquals(dtype, DType.of(loss));
        assertClose(tolerance, "loss", reference.get("loss").tensor(), loss);
        assertClose(tolerance, "gradient", reference.get("gradient").tensor(), logits.grad());
    }

    @Test
    void equalLogitsHaveTheLogarithmOfTheVocabularyAsLoss() {
        Tensor loss =
                Losses.crossEntropy(torch.zeros(2, 3, 10), torch.zeros(2, 3).to(torch.ScalarType.Long));
        assertEquals(Math.log(10), loss.item_double(), 1e-6);
    }

    @Test
    void bf16LogitsAreComputedInFp32() {
        Tensor logits = torch.randn(4, 500).to(torch.ScalarType.BFloat16);
        Tensor targets = torch.arange(new org.bytedeco.pytorch.Scalar(4));
        Tensor loss = Losses.crossEntropy(logits, targets);
        assertEquals(DType.FLOAT32, DType.of(loss));
        assertClose(4 * FLOAT32_ULP, "loss", Losses.crossEntropy(logits.to(torch.ScalarType.Double), targets), loss);
    }

    @Test
    void mismatchesAreNamed() {
        Tensor logits = torch.zeros(2, 3);
        assertRefused(logits, Tensor.create(0, 1), "targets must be int64, not int32");
        assertRefused(logits, torch.tensor(0L, 1L, 2L), "targets must have the shape of logits");
        assertRefused(logits.select(0, 0), torch.tensor(0L, 1L), "targets must have the shape of logits");
        assertRefused(torch.zeros(0, 3), torch.zeros(0).to(torch.ScalarType.Long), "targets must have the shape");
        assertRefused(logits, torch.tensor(0L, 3L), "targets must be from 0 to 2, the last token of the vocabulary");
        assertRefused(logits, torch.tensor(-100L, 2L), "targets must be from 0 to 2, the last token of the vocabulary");
        assertRefused(torch.tensor(1L), torch.tensor(1L), "logits must be floating-point, not int64");
    }

    private static void assertRefused(Tensor logits, Tensor targets, String message) {
        var error = assertThrows(IllegalArgumentException.class, () -> Losses.crossEntropy(logits, targets));
        assertTrue(error.getMessage().startsWith(message), error.getMessage());
    }
}
