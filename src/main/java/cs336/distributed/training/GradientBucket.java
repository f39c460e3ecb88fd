package cs336.distributed.training;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Several gradients in one buffer. The backward pass makes each gradient in memory of its own; {@link #collect} copies
 * it into its place in the buffer, which from then on <em>is</em> {@code grad()}: what the reduction leaves there need
 * not be copied back. Where gradients are kept over several backward passes, they are added up in the buffer and not
 * copied at all.
 */
final class GradientBucket implements GradientCollective {
    private static final AtenOperator FOREACH_COPY = AtenOperator.of("aten::_foreach_copy_", "");

    private final int[] members;
    private final List<Tensor> parameters;
    private final List<Tensor> views = new ArrayList<>(); // of the buffer, shaped like the parameters
    private final Tensor buffer;
    private final TensorList allViews;

    /** @param all the parameters that the layout was made for, all on one device */
    GradientBucket(BucketLayout.Bucket bucket, List<Tensor> all) {
        members = bucket.parameters().stream().mapToInt(Integer::intValue).toArray();
        parameters = bucket.parameters().stream().map(all::get).toList();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            buffer = MemoryScope.keep(torch.empty(
                    new long[] {bucket.elements()}, parameters.get(0).options(), null));
            long from = 0;
            for (Tensor parameter : parameters) {
                long elements = parameter.numel();
                Tensor place = buffer.narrow(0, from, elements);
                views.add(MemoryScope.keep(place.view(Tensors.shape(parameter))));
                from += elements;
            }
            allViews = TensorList.of(views);
        }
    }

    /**
     * A bucket in a buffer that is there already.
     *
     * @param members places of the parameters
     * @param views of the buffer, shaped like the parameters; closed with the bucket, as is the buffer
     */
    GradientBucket(int[] members, List<Tensor> parameters, List<Tensor> views, Tensor buffer) {
        this.members = members;
        this.parameters = List.copyOf(parameters);
        this.views.addAll(views);
        this.buffer = buffer;
        allViews = TensorList.of(views);
    }

    @Override
    public int[] members() {
        return members;
    }

    @Override
    public Tensor collect(boolean[] present) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> strangers = new ArrayList<>(members.length);
            List<Tensor> places = new ArrayList<>(members.length);
            for (int i = 0; i < members.length; i++) {
                Tensor gradient = parameters.get(i).grad();
                present[members[i]] = gradient.defined();
                if (!gradient.defined()) {
                    views.get(i).zero_();
                } else if (!gradient.is_same(views.get(i))) {
                    strangers.add(gradient);
                    places.add(views.get(i));
                }
            }
            copy(strangers, places);
            for (int i = 0; i < members.length; i++) {
                parameters.get(i).mutable_grad().put(views.get(i));
            }
            return buffer;
        }
    }

    private void copy(List<Tensor> gradients, List<Tensor> places) {
        if (gradients.isEmpty()) return;
        try (var from = TensorList.of(gradients)) {
            if (places.size() == members.length) {
                FOREACH_COPY.call(allViews, from, false);
            } else {
                try (var to = TensorList.of(places)) {
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
