package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Attention;
import cs336.bench.DoBench;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Times both passes of 16 heads through autograd, for cases that the stored measurements do not cover. */
@Tag("gpu")
class FlashTimesGpuTest {
    private static final int HEADS = 16;
    private static final Device GPU = Device.cuda(0);

    @ParameterizedTest
    @CsvSource({
        "16, bf16, true, 16384, 16384",
        "32, bf16, true, 16384, 16384",
        "64, fp16, true, 16384, 16384",
        "128, fp16, true, 16384, 16384",
        "64, bf16, false, 16384, 16384",
        "128, bf16, false, 16384, 16384",
        "64, bf16, false, 4096, 16384",
        "64, bf16, false, 16384, 4096",
        "128, bf16, false, 4096, 16384",
        "128, bf16, false, 16384, 4096"
    })
    void bothPassesAreFasterThanPyTorchsFlashAttention(int d, String type, boolean causal, int queries, int keys) {
        try (var scope = MemoryScope.open()) {
            long[] ofQueries = {1, HEADS, queries, d}, ofKeys = {1, HEADS, keys, d};
            FlashInputs x = FlashInputs.random(GPU, DType.parse(type), ofQueries, ofKeys);
            for (Tensor input : List.of(x.q(), x.k(), x.v())) {
                input.set_requires_grad(true);
            }
            double theirs = milliseconds(new PyTorchFlash(), x, causal);
            double ours = milliseconds(new FlashAttentions.Fastest(), x, causal);
            assertTrue(ours < theirs, "%.3f ms; PyTorch's: %.3f ms".formatted(ours, theirs));
        }
    }

    /** Returns the median time by {@link DoBench}. */
    private static double milliseconds(Attention attention, FlashInputs x, boolean causal) {
        return DoBench.on(GPU)
                .warmup(50)
                .rep(200)
                .time(
                        "forward-backward",
                        () -> Backward.of(attention.apply(x.q(), x.k(), x.v(), causal))
                                .with(x.dO())
                                .gradients(x.q(), x.k(), x.v()))
                .summary()
                .median();
    }
}
