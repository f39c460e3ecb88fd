package cs336.compile;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The sums of the gradients of several batches, in the dtypes of the parameters. */
final class GradientSums {
    private static final AtenOperator FOREACH_ADD = AtenOperator.of("aten::_foreach_add_", "List");
    private static final AtenOperator FOREACH_DIVIDE = AtenOperator.of("aten::_foreach_div_", "Scalar");

    private final List<Tensor> parameters;
    private final Tensor[] sums; // by parameter; null for one without a gradient so far
    private int batches;

    GradientSums(List<Tensor> parameters) {
        this.parameters = parameters;
        sums = new Tensor[parameters.size()];
    }

    /** Returns the number of complete batches. */
    int batches() {
        return batches;
    }

    /** Adds the gradients of parameters to the sums. */
    void add(List<Integer> indices) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> to = new ArrayList<>();
            List<Tensor> from = new ArrayList<>();
            for (int i : indices) {
                Tensor gradient = parameters.get(i).grad();
                if (!gradient.defined()) {
                    continue;
                }
                if (sums[i] == null) { // in the dtype of the parameter, also if the gradient has 16 bits
                    sums[i] = MemoryScope.keep(torch.zeros_like(parameters.get(i)));
                }
                to.add(sums[i]);
                from.add(gradient);
            }
            if (!to.isEmpty()) {
                try (var toList = TensorList.of(to);
                        var fromList = TensorList.of(from)) {
                    FOREACH_ADD.call(toList, fromList, 1L);
                }
            }
        }
    }

    /** Ends a batch whose gradients were added. */
    void endBatch() {
        batches++;
    }

    /** Adds the gradients of parameters, and replaces them by the mean over the complete batches and this one. */
    void average(List<Integer> indices) {
        add(indices);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Integer> summed = indices.stream().filter(i -> sums[i] != null).toList();
            if (!summed.isEmpty()) {
                try (var list = TensorList.of(summed.stream().map(i -> sums[i]).toList())) {
                    FOREACH_DIVIDE.call(list, (double) (batches + 1));
                }
            }
            summed.forEach(i -> parameters.get(i).mutable_grad().put(sums[i]));
        }
    }

    /** Frees the sums. */
    void clear() {
        Arrays.stream(sums).filter(Objects::nonNull).forEach(Tensor::close);
        Arrays.fill(sums, null);
        batches = 0;
    }
}
