package cs336.torch;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Edge;
import org.bytedeco.pytorch.Node;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Stands in the graph of a backward pass where a derivative is not known, so that asking for it is an error rather than
 * a wrong number.
 */
final class UnknownDerivative extends AutogradFunction {
    private final String reason;

    private UnknownDerivative(String reason) {
        this.reason = reason;
    }

    /**
     * The same values, from which no gradient gets back to the inputs of the function whose backward pass this thread
     * runs, nor to the gradients given to it.
     */
    static Tensor of(Tensor tensor, Tensor[] gradOutputs, String reason) {
        List<Tensor> inputs = new ArrayList<>();
        inputs.add(tensor.detach().set_requires_grad(true));
        for (Tensor gradient : gradOutputs) {
            if (gradient != null) {
                inputs.add(gradient);
            }
        }
        Tensor refused = new UnknownDerivative(reason).apply(inputs.toArray(new Tensor[0]))[0];
        // PyTorch runs only nodes on a way to what is asked for: this one must lead where the true derivative would.
        Node refusal = refused.grad_fn();
        Node current = torch.get_current_node();
        for (int i = 0; i < current.num_outputs(); i++) {
            Edge edge = current.next_edge(i);
            if (edge.is_valid()) {
                refusal.add_next_edge(edge);
            }
        }
        return refused;
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        return new Tensor[] {inputs[0]};
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        throw new UnsupportedOperationException(reason);
    }
}
