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

    /** Fills one sequence: {@code context} inputs and, one further, {@code context} targets. */
    private interface Source {
        void draw(SplittableRandom random, long[] inputs, long[] targets, int from, int context);
    }

    private final Source source;
    private final int batchSize;
    private final int contextLength;
    private final Device device;
    private final SplittableRandom random;

    private Batches(Source source, int batchSize, int contextLength, Device device, long seed) {
        this.source = source;
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
        requirePositive("vocabSize", vocabSize);
        requireSizes(batchSize, contextLength);
        Source source = (random, inputs, targets, from, context) -> {
            for (int i = from; i < from + context; i++) {
                inputs[i] = random.nextInt(vocabSize);
                targets[i] = random.nextInt(vocabSize);
            }
        };
        return new Batches(source, batchSize, contextLength, device, seed);
    }

    /**
     * Sequences cut out of a text at random places, with the next token of each as target. All places where a sequence
     * and its last target fit are equally likely.
     *
     * @param tokens the text; more than {@code contextLength} of them. Not copied.
     * @throws IllegalArgumentException if a size is below 1 or the text too short
     */
    public static Batches fromTokens(int[] tokens, int batchSize, int contextLength, Device device, long seed) {
        requireSizes(batchSize, contextLength);
        if (tokens.length <= contextLength) {
            throw new IllegalArgumentException("tokens must be more than contextLength " + contextLength + ", not "
                    + tokens.length + ": the last input needs a target");
        }
        Source source = (random, inputs, targets, from, context) -> {
            int start = random.nextInt(tokens.length - context);
            for (int i = 0; i < context; i++) {
                inputs[from + i] = tokens[start + i];
                targets[from + i] = tokens[start + i + 1];
            }
        };
        return new Batches(source, batchSize, contextLength, device, seed);
    }

    /** The next batch, on the device, in the caller's memory scope. */
    public Batch next() {
        long[] inputs = new long[Math.multiplyExact(batchSize, contextLength)];
        long[] targets = new long[inputs.length];
        for (int row = 0; row < batchSize; row++) {
            source.draw(random, inputs, targets, row * contextLength, contextLength);
        }
        try (var scope = MemoryScope.open()) {
            return new Batch(scope.escape(onDevice(inputs)), scope.escape(onDevice(targets)));
        }
    }

    private Tensor onDevice(long[] tokens) {
        Tensor tensor = Tensor.create(tokens, batchSize, contextLength);
        return tensor.to(device.toTorch(), tensor.scalar_type());
    }

    private static void requireSizes(int batchSize, int contextLength) {
        requirePositive("batchSize", batchSize);
        requirePositive("contextLength", contextLength);
    }

    private static void requirePositive(String name, int value) {
        if (value < 1) {
            throw new IllegalArgumentException(name + " must be at least 1, not " + value);
        }
    }
}
