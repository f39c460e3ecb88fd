package cs336.torch;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Edge;
import org.bytedeco.pytorch.Node;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * An identity function in the graph of a backward pass whose derivative is unknown: differentiating it throws an
 * exception instead of returning a wrong gradient.
 */
final class UnknownDerivative extends AutogradFunction {
    private final String reason;

    private UnknownDerivative(String reason) {
        this.reason = reason;
    }

    /**
     * Returns a tensor with the same values. An attempt to differentiate it throws an exception with this reason. This
     * holds for derivatives with respect to the inputs and the output gradients of the function whose backward pass
     * this thread runs.
     */
    static Tensor of(Tensor tensor, Tensor[] gradOutputs, String reason) {
        List<Tensor> inputs = new ArrayList<>();
        inputs.add(tensor.detach().set_requires_grad(true));
        for (Tensor gradient : gradOutputs) {
            if (gradient != null) {
                inputs.add(gradient);
            }
        }
        Tensor result = new UnknownDerivative(reason).apply(inputs.toArray(new Tensor[0]))[0];
        // The engine only runs nodes on a path to the requested inputs, so this node needs the true derivative's edges.
        Node node = result.grad_fn();
        Node current = torch.get_current_node();
        for (int i = 0; i < current.num_outputs(); i++) {
            Edge edge = current.next_edge(i);
            if (edge.is_valid()) {
                node.add_next_edge(edge);
            }
        }
        return result;
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
