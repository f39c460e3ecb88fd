package cs336.basics;

import static cs336.basics.TransformerConfig.requirePositive;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Objects;
import java.util.SplittableRandom;
import org.bytedeco.pytorch.Tensor;

/**
 * An endless sequence of training batches: random tokens for measurements of time and memory, or random sequences of a
 * text. The seed alone determines the batches: the generator is independent of PyTorch's.
 */
public final class Batches {
    /**
     * Input tokens and the target of each.
     *
     * @param inputs int64 [batch, context]
     * @param targets int64 [batch, context]
     */
    public record Batch(Tensor inputs, Tensor targets) {}

    /** Writes the inputs and targets of one sequence from index {@code from} on. */
    private interface SequenceSource {
        void fill(SplittableRandom random, long[] inputs, long[] targets, int from);
    }

    private final SequenceSource source;
    private final int batchSize;
    private final int contextLength;
    private final Device device;
    private final SplittableRandom random;

    private Batches(SequenceSource source, int batchSize, int contextLength, Device device, long seed) {
        requirePositive("batchSize", batchSize);
        requirePositive("contextLength", contextLength);
        if ((long) batchSize * contextLength > Integer.MAX_VALUE) {
            throw new IllegalArgumentException("batchSize " + batchSize + " × contextLength " + contextLength
                    + " must be at most " + Integer.MAX_VALUE + " tokens");
        }
        Objects.requireNonNull(device, "device must not be null");
        this.source = source;
        this.batchSize = batchSize;
        this.contextLength = contextLength;
        this.device = device;
        random = new SplittableRandom(seed);
    }

    /**
     * Returns batches whose inputs and targets are drawn independently and uniformly.
     *
     * @param vocabSize the number of tokens; ids are from 0 to {@code vocabSize} − 1
     * @throws IllegalArgumentException if a size is below 1 or a batch has more than 2³¹ − 1 tokens
     */
    public static Batches random(int vocabSize, int batchSize, int contextLength, Device device, long seed) {
        requirePositive("vocabSize", vocabSize);
        SequenceSource source = (random, inputs, targets, from) -> {
            for (int i = from; i < from + contextLength; i++) {
                inputs[i] = random.nextInt(vocabSize);
                targets[i] = random.nextInt(vocabSize);
            }
        };
        return new Batches(source, batchSize, contextLength, device, seed);
    }

    /**
     * Returns batches of sequences that start at random positions of a text. The target of each token is the next one.
     * All positions where {@code contextLength + 1} tokens fit are equally likely.
     *
     * @param tokens the token ids of the text, more than {@code contextLength}; not copied
     * @throws IllegalArgumentException if a size is below 1 or the text is too short
     */
    public static Batches fromTokens(int[] tokens, int batchSize, int contextLength, Device device, long seed) {
        if (tokens.length <= contextLength) {
            throw new IllegalArgumentException("tokens must contain more than contextLength " + contextLength
                    + " tokens, not " + tokens.length + ": the last input needs a target");
        }
        SequenceSource source = (random, inputs, targets, from) -> {
            int start = random.nextInt(tokens.length - contextLength);
            for (int i = 0; i < contextLength; i++) {
                inputs[from + i] = tokens[start + i];
                targets[from + i] = tokens[start + i + 1];
            }
        };
        return new Batches(source, batchSize, contextLength, device, seed);
    }

    /** Returns the next batch on the device, in the caller's memory scope. */
    public Batch next() {
        long[] inputs = new long[Math.multiplyExact(batchSize, contextLength)];
        long[] targets = new long[inputs.length];
        for (int row = 0; row < batchSize; row++) {
            source.fill(random, inputs, targets, row * contextLength);
        }
        try (var scope = MemoryScope.open()) {
            return new Batch(scope.escape(onDevice(inputs)), scope.escape(onDevice(targets)));
        }
    }

    /**
     * Skips this many sequences, for example those that a run had read before its checkpoint.
     *
     * @throws IllegalArgumentException if {@code sequences} is negative
     */
    public void skip(long sequences) {
        if (sequences < 0) {
            throw new IllegalArgumentException("sequences must be at least 0, not " + sequences);
        }
        var ignored = new long[contextLength];
        for (long i = 0; i < sequences; i++) {
            source.fill(random, ignored, ignored, 0);
        }
    }

    private Tensor onDevice(long[] tokens) {
        Tensor tensor = Tensor.create(tokens, batchSize, contextLength);
        return tensor.to(device.toTorch(), tensor.scalar_type());
    }
}
