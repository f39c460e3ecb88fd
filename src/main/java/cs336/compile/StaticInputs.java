package cs336.compile;

import cs336.compile.program.Layout;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The tensors that a CUDA graph reads instead of the inputs of a call. They have the strides of the inputs, and share
 * memory where those do.
 */
final class StaticInputs implements AutoCloseable {
    private final Tensor[] tensors;

    /**
     * Creates tensors for inputs like these.
     *
     * @throws IllegalStateException if inputs with different dtypes share memory
     */
    StaticInputs(Tensor... inputs) {
        tensors = new Tensor[inputs.length];
        try (var scope = MemoryScope.open()) {
            for (int i = 0; i < inputs.length; i++) {
                if (tensors[i] == null) {
                    create(inputs[i], inputs);
                }
            }
        }
    }

    /** Creates the tensors for all inputs that share memory with this one. */
    private void create(Tensor first, Tensor... inputs) {
        List<Layout> layouts =
                Arrays.stream(inputs).filter(first::is_alias_of).map(Layout::of).toList();
        long begin = layouts.stream().mapToLong(Layout::offset).min().getAsLong();
        long end = layouts.stream().mapToLong(Layout::end).max().getAsLong();
        if (layouts.stream().map(Layout::dtype).distinct().count() > 1) {
            throw new IllegalStateException("inputs with different dtypes must not share memory in a CUDA graph");
        }
        Tensor memory = torch.zeros(new long[] {Math.max(0, end - begin)}, first.options());
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i].is_alias_of(first)) {
                Layout like = Layout.of(inputs[i]);
                Tensor tensor = like.withOffset(like.offset() - begin).view(memory);
                tensors[i] = MemoryScope.keep(like.conjugated() ? tensor.conj() : tensor);
            }
        }
    }

    /** Copies the elements of inputs with the same layouts. */
    void copy(Tensor... inputs) {
        for (int i = 0; i < inputs.length; i++) {
            distinct(tensors[i]).copy_(distinct(inputs[i]));
        }
    }

    /** Returns a tensor, or its memory if elements share it, as in {@code x.expand} or {@code x.unfold}. */
    private static Tensor distinct(Tensor tensor) {
        Layout layout = Layout.of(tensor);
        long memory = layout.end() - layout.offset();
        return layout.elements() <= memory
                ? tensor
                : tensor.as_strided(new long[] {memory}, new long[] {1}, new LongOptional(layout.offset()));
    }

    Tensor[] tensors() {
        return tensors;
    }

    @Override
    public void close() {
        Arrays.stream(tensors).forEach(Tensor::close);
    }
}
