package cs336.compile;

import cs336.compile.program.Layout;
import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import cs336.torch.Autocast;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * A function of tensors that is recorded once and then runs as an optimized program: {@code torch.compile}.
 *
 * <pre>{@code
 * try (var gelu = Compiled.of(in -> new Tensor[] {in[0].mul(normalDistribution(in[0]))})) {
 *     Tensor y = gelu.apply(x)[0]; // records, fuses and runs
 *     Tensor z = gelu.apply(x)[0]; // runs the fused kernel
 *     System.out.println(gelu.explain());
 * }
 * }</pre>
 *
 * <p>Inputs of other dtypes, shapes, strides or devices are recorded again. The function must not depend on anything
 * else that changes: it is a function of its inputs and of tensors whose elements may change, such as parameters. It
 * computes no gradients; {@link CompiledStep} compiles training steps.
 */
public final class Compiled implements AutoCloseable {
    /** What a recording depends on. Inputs that share a storage have the same number in {@code storages}. */
    private record Guard(List<Layout> layouts, List<Boolean> onGpu, List<Long> storages, String autocast) {}

    private final TensorFunction function;
    private final boolean fuse;
    private final boolean graphed;
    private final Map<Guard, CompiledProgram> programs = new LinkedHashMap<>();

    private Compiled(TensorFunction function, boolean fuse, boolean graphed) {
        this.function = function;
        this.fuse = fuse;
        this.graphed = graphed;
    }

    /** Returns the compiled form of a function. Nothing is recorded before the first call. */
    public static Compiled of(TensorFunction function) {
        return new Compiled(function, true, false);
    }

    /** Returns a form that runs the recorded operators without fusing them, which computes bit for bit the same. */
    public Compiled withoutFusion() {
        return new Compiled(function, false, graphed);
    }

    /**
     * Returns a form that runs as a CUDA graph on a GPU, which removes its launch overhead. The next call with the same
     * layouts overwrites the outputs of a call.
     */
    public Compiled asGraph() {
        return new Compiled(function, fuse, true);
    }

    /**
     * Calls the function.
     *
     * @return the outputs, in the caller's memory scope. No two of them share memory, or share memory with an input.
     * @throws UnrecordableException if the function reads elements of tensors on the host
     * @throws IllegalArgumentException if there is no input, or one is null or undefined
     * @throws IllegalStateException if grad mode is on and an input requires a gradient
     */
    public Tensor[] apply(Tensor... inputs) {
        requireUsable(inputs);
        List<Layout> layouts = new ArrayList<>();
        List<Boolean> onGpu = new ArrayList<>();
        List<Long> storages = new ArrayList<>();
        Map<Long, Tensor> first = new HashMap<>();
        for (Tensor input : inputs) {
            long storage = input.storage().unsafeGetStorageImpl().address();
            Tensor earlier = first.putIfAbsent(storage, input);
            long distance = earlier == null ? 0 : input.storage_offset() - earlier.storage_offset();
            layouts.add(Layout.of(input).withOffset(distance));
            onGpu.add(input.is_cuda());
            storages.add(earlier == null ? first.size() - 1L : storages.get(indexOf(earlier, inputs)));
        }
        var guard = new Guard(layouts, onGpu, storages, Autocast.state());
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            CompiledProgram program = programs.get(guard);
            var ofRecording = new AtomicReference<Tensor[]>();
            if (program == null) {
                Device device = onGpu.contains(true) ? Device.cuda(0) : Device.cpu();
                program = CompiledProgram.record(function, device, fuse, Map.of(), ofRecording, inputs);
                programs.put(guard, program);
            }
            boolean isGraph = graphed && onGpu.contains(true);
            Tensor[] outputs = ofRecording.get();
            if (outputs == null) {
                outputs = isGraph ? program.runGraph(inputs) : program.run(inputs);
            }
            for (Tensor output : outputs) {
                if (output != null) {
                    scope.escape(output);
                }
            }
            return outputs;
        }
    }

    private static int indexOf(Tensor tensor, Tensor... tensors) {
        return Arrays.asList(tensors).indexOf(tensor);
    }

    private static void requireUsable(Tensor... inputs) {
        if (inputs.length == 0) {
            throw new IllegalArgumentException("inputs must contain at least one tensor");
        }
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i] == null || inputs[i].isNull() || !inputs[i].defined()) {
                throw new IllegalArgumentException("input " + i + " must be a defined tensor");
            }
            if (GradMode.is_enabled() && inputs[i].requires_grad()) {
                throw new IllegalStateException("input " + i
                        + " requires a gradient, which a compiled function does not compute; use NoGrad or detach()");
            }
        }
    }

    /** Returns the number of recordings, one for each combination of layouts of the inputs so far. */
    public int recordings() {
        return programs.size();
    }

    /** Returns the recorded and the fused program of each recording, and the sources of the generated kernels. */
    public String explain() {
        var text = new StringBuilder();
        programs.values().forEach(program -> text.append(program.explain()));
        return text.toString();
    }

    /** Frees the recordings. */
    @Override
    public void close() {
        programs.values().forEach(CompiledProgram::close);
        programs.clear();
    }
}
