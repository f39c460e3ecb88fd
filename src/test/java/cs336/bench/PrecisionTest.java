package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Batches;
import cs336.basics.GradScaler;
import cs336.basics.Losses;
import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class PrecisionTest {
    private final Device cpu = Device.cpu();

    @ParameterizedTest
    @CsvSource({"FP32, FLOAT32, 0", "TF32, FLOAT32, 0", "BF16, BFLOAT16, 0.1", "FP16, FLOAT16, 0.01"})
    void logitsHaveTheDtypeOfThePrecisionAndGradientsAreCloseToFp32(
            Precision precision, DType logitsType, double tolerance) {
        Torch.seed(4);
        TransformerConfig config = TinyConfig.create();
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, cpu)) {
            double[] exact = gradients(model, Precision.FP32, DType.FLOAT32);
            double[] narrow = gradients(model, precision, logitsType);
            double largest = Arrays.stream(exact).map(Math::abs).max().orElseThrow();
            for (int i = 0; i < exact.length; i++) {
                assertEquals(exact[i], narrow[i], tolerance * largest, "element " + i);
            }
            assertEquals(tolerance == 0, Arrays.equals(exact, narrow));
        }
    }

    private double[] gradients(TransformerLM model, Precision precision, DType logitsType) {
        Batches.Batch data = Batches.random(50, 2, 16, cpu, 0).next();
        Tensor weight = model.namedParameters().get("layers.0.ffn.w1.weight");
        try (var scope = MemoryScope.open();
                GradScaler scaler = precision.scaler(cpu)) {
            Tensor loss;
            try (var autocast = precision.autocast(cpu)) {
                Tensor logits = model.forward(data.inputs());
                assertEquals(logitsType, DType.of(logits));
                loss = Losses.crossEntropy(logits, data.targets());
            }
            scaler.scale(loss).backward();
            assertEquals(DType.FLOAT32, DType.of(weight.grad()));
            double[] values = Arrays.stream(Tensors.toDoubles(weight.grad()))
                    .map(g -> g / scaler.scale())
                    .toArray();
            model.parameters().forEach(p -> p.mutable_grad().reset());
            return values;
        }
    }

    @ParameterizedTest
    @EnumSource(Precision.class)
    void onlyTf32AllowsTf32AndOnlyFp16ScalesTheLoss(Precision precision) {
        assertEquals(precision == Precision.TF32, precision.tf32());
        try (GradScaler scaler = precision.scaler(cpu)) {
            assertEquals(precision == Precision.FP16 ? 65_536 : 1, scaler.scale());
        }
        assertEquals(precision, Precision.parse(precision.toString()));
    }

    @Test
    void anUnknownNameIsRejectedWithTheKnownNames() {
        var error = assertThrows(IllegalArgumentException.class, () -> Precision.parse("fp8"));
        assertTrue(error.getMessage().endsWith("known: fp32, tf32, bf16, fp16"), error.getMessage());
    }
}
