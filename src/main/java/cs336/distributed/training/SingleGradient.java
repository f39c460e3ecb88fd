package cs336.distributed.training;

import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The gradient of one parameter, all-reduced in place without a copy. */
final class SingleGradient implements GradientCollective {
    private final int index;
    private final Tensor parameter;

    SingleGradient(int index, Tensor parameter) {
        this.index = index;
        this.parameter = parameter;
    }

    @Override
    public int[] members() {
        return new int[] {index};
    }

    @Override
    public Tensor collect(List<String> names, boolean[] present) {
        Tensor gradient = parameter.grad();
        present[index] = gradient.defined();
        if (present[index]) {
            GradientCollective.requireDense(names.get(index), gradient);
            return gradient;
        }
        Tensor zeros = torch.zeros_like(parameter);
        parameter.mutable_grad().put(zeros);
        return zeros;
    }

    @Override
    public void close() {}
}
