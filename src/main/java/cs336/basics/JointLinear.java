package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Several linear layers with the same input: x·W₁ᵀ, x·W₂ᵀ, …, each […, in] → […, outᵢ]. The backward pass adds up the
 * gradient of x, dY₁·W₁ + dY₂·W₂ + …, inside the matrix multiplications. Separate layers compute one gradient each, and
 * autograd adds them with a kernel that reads two tensors and writes a third.
 */
final class JointLinear extends AutogradFunction {
    /**
     * Returns the outputs of the layers, in the caller's memory scope. Under autocast the matrix multiplications run in
     * the autocast dtype.
     *
     * @param x […, in]
     */
    static Tensor[] of(Tensor x, Linear... layers) {
        Stream<Tensor> weights = Arrays.stream(layers).map(Linear::operand);
        return new JointLinear()
                .apply(Stream.concat(Stream.of(Autocast.operand(x)), weights).toArray(Tensor[]::new));
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        ctx.save(inputs);
        return Arrays.stream(inputs)
                .skip(1)
                .map(weight -> torch.linear(inputs[0], weight))
                .toArray(Tensor[]::new);
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        Tensor x = ctx.saved(0); // […, in]
        Tensor rows = x.reshape(-1, x.size(-1)); // [N, in]
        Tensor dX = null; // [N, in]
        Tensor[] gradients = new Tensor[1 + gradOutputs.length];
        for (int i = 1; i < gradients.length; i++) {
            if (gradOutputs[i - 1] == null) {
                continue;
            }
            Tensor weight = ctx.saved(i); // [outᵢ, in]
            Tensor dY = gradOutputs[i - 1].reshape(-1, weight.size(0)); // [N, outᵢ]
            if (ctx.needsInputGrad(i)) {
                gradients[i] = dY.t().matmul(rows);
            }
            if (ctx.needsInputGrad(0)) {
                dX = dX == null ? dY.matmul(weight) : dX.addmm_(dY, weight);
            }
        }
        gradients[0] = dX == null ? null : dX.view(Tensors.shape(x));
        return gradients;
    }
}
