package cs336.compile;

import cs336.compile.fuse.FusionPasses;
import cs336.compile.program.Layout;
import cs336.compile.program.Program;
import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
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
    /** What a recording depends on. */
    private record Guard(List<Layout> layouts, List<Boolean> onGpu) {}

    private final TensorFunction function;
    private final boolean fuse;
    private final Map<Guard, CompiledProgram> programs = new LinkedHashMap<>();

    private Compiled(TensorFunction function, boolean fuse) {
        this.function = function;
        this.fuse = fuse;
    }

    /** Returns the compiled form of a function. Nothing is recorded before the first call. */
    public static Compiled of(TensorFunction function) {
        return new Compiled(function, true);
    }

    /** Returns a form that runs the recorded operators without fusing them, which computes bit for bit the same. */
    public Compiled withoutFusion() {
        return new Compiled(function, false);
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
        for (Tensor input : inputs) {
            layouts.add(Layout.of(input).withOffset(0));
            onGpu.add(input.is_cuda());
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            CompiledProgram program = programs.get(new Guard(layouts, onGpu));
            if (program == null) {
                Device device = onGpu.contains(true) ? Device.cuda(0) : Device.cpu();
                program = CompiledProgram.record(function, device, fuse, Map.of(), new AtomicReference<>(), inputs);
                programs.put(new Guard(layouts, onGpu), program);
            }
            Tensor[] outputs = program.run(inputs);
            for (Tensor output : outputs) {
                if (output != null) {
                    scope.escape(output);
                }
            }
            return outputs;
        }
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

    /** Returns the programs of all recordings after each pass, and the sources of the generated kernels. */
    public String explain() {
        var text = new StringBuilder();
        programs.forEach(
                (guard, program) -> text.append(explain(program.recorded(), fuse ? program.optimized() : null)));
        return text.toString();
    }

    static String explain(Program recorded, Program fused) {
        var text = new StringBuilder("recorded: " + recorded.operations().size() + " operations\n" + recorded);
        if (fused != null) {
            text.append("\nfused: ")
                    .append(fused.operations().size())
                    .append(" operations\n")
                    .append(fused);
            FusionPasses.sources(fused)
                    .forEach((name, source) -> text.append("\nkernel of ")
                            .append(name)
                            .append(":\n")
                            .append(source));
        }
        return text.toString();
    }

    /** Frees the recordings. */
    @Override
    public void close() {
        programs.values().forEach(CompiledProgram::close);
        programs.clear();
    }
}
