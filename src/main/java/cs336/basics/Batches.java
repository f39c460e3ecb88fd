package cs336.basics;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.SplittableRandom;
import org.bytedeco.pytorch.Tensor;

/**
 * An endless sequence of random training batches for measurements of time and memory. The seed alone determines the
 * batches: the generator is independent of PyTorch's.
 */
public final class Batches {
    /**
     * Input tokens and the target of each.
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
     * Returns batches whose inputs and targets are drawn independently and uniformly.
     *
     * @param vocabSize the number of tokens; ids are from 0 to {@code vocabSize} − 1
     * @throws IllegalArgumentException if a size is below 1
     */
    public static Batches random(int vocabSize, int batchSize, int contextLength, Device device, long seed) {
        TransformerConfig.requirePositive("vocabSize", vocabSize);
        TransformerConfig.requirePositive("batchSize", batchSize);
        TransformerConfig.requirePositive("contextLength", contextLength);
        return new Batches(vocabSize, batchSize, contextLength, device, seed);
    }

    /** Returns the next batch on the device, in the caller's memory scope. */
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
