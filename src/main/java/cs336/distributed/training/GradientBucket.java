package cs336.distributed.training;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Several gradients in one buffer. The backward pass creates each gradient in its own memory. {@link #collect} copies
 * it into the buffer and makes {@code grad()} a view of the buffer, so that the result of the reduction needs no copy
 * back. Gradients that accumulate over several backward passes accumulate in the buffer and are not copied again.
 */
final class GradientBucket implements GradientCollective {
    static final AtenOperator FOREACH_COPY = AtenOperator.of("aten::_foreach_copy_", "");

    private final int[] members;
    private final List<Tensor> parameters;
    private final List<Tensor> views = new ArrayList<>(); // into the buffer, shaped like the parameters
    private final Tensor buffer;
    private final TensorList allViews;

    /**
     * Creates a bucket with a new buffer.
     *
     * @param all the parameters of the layout, all on one device
     */
    GradientBucket(BucketLayout.Bucket bucket, List<Tensor> all) {
        members = bucket.parameters().stream().mapToInt(Integer::intValue).toArray();
        parameters = bucket.parameters().stream().map(all::get).toList();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            buffer = MemoryScope.keep(torch.empty(
                    new long[] {bucket.elements()}, parameters.get(0).options(), null));
            long offset = 0;
            for (Tensor parameter : parameters) {
                long elements = parameter.numel();
                Tensor view = buffer.narrow(0, offset, elements);
                views.add(MemoryScope.keep(view.view(Tensors.shape(parameter))));
                offset += elements;
            }
            allViews = TensorList.of(views);
        }
    }

    /**
     * Creates a bucket with an existing buffer.
     *
     * @param members indices of the parameters
     * @param views views of the buffer, shaped like the parameters; closed with the bucket, like the buffer
     */
    GradientBucket(int[] members, List<Tensor> parameters, List<Tensor> views, Tensor buffer) {
        this.members = members;
        this.parameters = List.copyOf(parameters);
        this.views.addAll(views);
        this.buffer = buffer;
        allViews = TensorList.of(views);
    }

    /** Returns new buckets of at most this size for the gradients of all these parameters; see {@link BucketLayout}. */
    static List<GradientBucket> of(List<Tensor> parameters, long mostBytes) {
        List<BucketLayout.ParameterSize> sizes = parameters.stream()
                .map(parameter -> new BucketLayout.ParameterSize(parameter.numel(), DType.of(parameter)))
                .toList();
        return BucketLayout.of(sizes, mostBytes).buckets().stream()
                .map(bucket -> new GradientBucket(bucket, parameters))
                .toList();
    }

    @Override
    public int[] members() {
        return members;
    }

    @Override
    public Tensor collect(List<String> names, boolean[] present) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> outside = new ArrayList<>(members.length);
            List<Tensor> targets = new ArrayList<>(members.length);
            for (int i = 0; i < members.length; i++) {
                Tensor gradient = parameters.get(i).grad();
                present[members[i]] = gradient.defined();
                if (!gradient.defined()) {
                    views.get(i).zero_();
                } else if (!gradient.is_same(views.get(i))) {
                    GradientCollective.requireDense(names.get(members[i]), gradient);
                    outside.add(gradient);
                    targets.add(views.get(i));
                }
            }
            copy(outside, targets);
            for (int i = 0; i < members.length; i++) {
                parameters.get(i).mutable_grad().put(views.get(i));
            }
            return buffer;
        }
    }

    /** Returns the index of the first parameter whose gradient is a view of the buffer, or -1. */
    int firstInBuffer() {
        try (var scope = MemoryScope.open()) {
            for (int i = 0; i < members.length; i++) {
                if (parameters.get(i).grad().is_same(views.get(i))) {
                    return members[i];
                }
            }
            return -1;
        }
    }

    private void copy(List<Tensor> gradients, List<Tensor> targets) {
        if (gradients.isEmpty()) {
            return;
        }
        try (var from = TensorList.of(gradients)) {
            if (targets.size() == members.length) {
                FOREACH_COPY.call(allViews, from, false);
            } else {
                try (var to = TensorList.of(targets)) {
                    FOREACH_COPY.call(to, from, false);
                }
            }
        }
    }

    @Override
    public void close() {
        allViews.close();
        views.forEach(Tensor::close);
        buffer.close();
    }
}
