package cs336.basics;

import cs336.torch.Tensors;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Dropout, like {@code torch.nn.Dropout}: in training mode each element becomes 0 with probability p, and the others
 * are multiplied by 1 ÷ (1 − p). In {@linkplain NnModule#eval evaluation mode} the output is the input.
 */
public final class Dropout extends NnModule {
    private final double p;

    /**
     * Creates a layer.
     *
     * @param p the probability of a zero, from 0 to 1
     * @throws IllegalArgumentException if it is out of range
     */
    public Dropout(double p) {
        if (!(p >= 0 && p <= 1)) {
            throw new IllegalArgumentException("p must be from 0 to 1, not " + p);
        }
        this.p = p;
    }

    @Override
    protected Tensor compute(Tensor x) {
        Tensors.requireFloating("input", x);
        if (!isTraining() || p == 0) {
            return x;
        }
        // Unlike torch.dropout on the CPU, this operator does not write in place, so that a compiler can record it.
        return torch.native_dropout(x, p, new BoolOptional(true)).get0();
    }
}
