package cs336.basics;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.SplittableRandom;
import org.bytedeco.pytorch.Tensor;

/**
 * An endless supply of training batches, the same ones for the same seed. It draws from a generator of its own, so that
 * neither the model nor PyTorch's seed changes the data.
 */
public final class Batches {
    /**
     * Sequences of tokens and what follows each token.
     *
     * @param inputs int64 [batch, context]
     * @param targets int64 [batch, context]
     */
    public record Batch(Tensor inputs, Tensor targets) {}

    private final int vocabSize;
    private final int batchSize;
    private final int contextLength;
    private final Device device;
    private final SplittableRandom random;

    private Batches(int vocabSize, int batchSize, int contextLength, Device device, long seed) {
        this.vocabSize = vocabSize;
        this.batchSize = batchSize;
        this.contextLength = contextLength;
        this.device = device;
        random = new SplittableRandom(seed);
    }

    /**
     * Tokens that mean nothing, inputs and targets drawn independently: for measuring time and memory.
     *
     * @param vocabSize tokens are from 0 to below this
     * @throws IllegalArgumentException if a size is below 1
     */
    public static Batches random(int vocabSize, int batchSize, int contextLength, Device device, long seed) {
        TransformerConfig.requirePositive("vocabSize", vocabSize);
        TransformerConfig.requirePositive("batchSize", batchSize);
        TransformerConfig.requirePositive("contextLength", contextLength);
        return new Batches(vocabSize, batchSize, contextLength, device, seed);
    }

    /** The next batch, on the device, in the caller's memory scope. */
    public Batch next() {
        long[] inputs = new long[Math.multiplyExact(batchSize, contextLength)];
        long[] targets = new long[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            inputs[i] = random.nextInt(vocabSize);
            targets[i] = random.nextInt(vocabSize);
        }
        try (var scope = MemoryScope.open()) {
            return new Batch(scope.escape(onDevice(inputs)), scope.escape(onDevice(targets)));
        }
    }

    private Tensor onDevice(long[] tokens) {
        Tensor tensor = Tensor.create(tokens, batchSize, contextLength);
        return tensor.to(device.toTorch(), tensor.scalar_type());
    }
}
