package cs336.distributed.training;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A parameter's gradient, sent from where the backward pass left it: nothing is copied. */
final class SingleGradient implements GradientCollective {
    private final int place;
    private final Tensor parameter;

    SingleGradient(int place, Tensor parameter) {
        this.place = place;
        this.parameter = parameter;
    }

    @Override
    public int[] members() {
        return new int[] {place};
    }

    @Override
    public Tensor collect(boolean[] present) {
        Tensor gradient = parameter.grad();
        present[place] = gradient.defined();
        if (present[place]) return gradient;
        Tensor zeros = torch.zeros_like(parameter);
        parameter.mutable_grad().put(zeros);
        return zeros;
    }

    @Override
    public void close() {}
}
