package cs336.compile;

import cs336.compile.fuse.FusionPasses;
import cs336.compile.fuse.Partition;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.Recorder.RecordedRun;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A recorded function of tensors with its backward pass, as two programs and one node of the autograd graph. The passes
 * are recorded together, so that the {@link Partition} can choose what the forward pass saves.
 */
final class DifferentiableProgram extends AutogradFunction implements AutoCloseable {
    private final Program joint;
    private final Partition parts;
    private final boolean[] sharesMemory;
    private final int[] savedOutputs; // for each saved value: the output whose memory it is in, or −1
    private final Interpreter forward;
    private final Interpreter backward;
    private final int outputs;
    private final List<Layout> gradOutputs; // of the outputs that exist; null for one without a gradient
    private final Device device;

    /**
     * A recorded function, or null and the reason why it cannot be compiled.
     *
     * @param outputs the outputs of the function, in the caller's memory scope; null if there is a program
     */
    record Attempt(DifferentiableProgram program, String reason, Tensor[] outputs) {}

    private DifferentiableProgram(
            Program joint, Partition parts, int outputs, List<Layout> gradOutputs, Device device) {
        this.joint = joint;
        this.outputs = outputs;
        this.gradOutputs = gradOutputs;
        this.device = device;
        this.parts = parts;
        // As tensors, outputs in one storage would have version counters of their own, which would hide a write to a
        // saved value from the other outputs.
        sharesMemory = parts.forward().sharedOutputs(true);
        savedOutputs = savedOutputs();
        forward = new Interpreter(parts.forward());
        backward = new Interpreter(parts.backward());
    }

    /**
     * Records both passes of a function.
     *
     * @param keepsAttention whether plain attention still stores its scores
     * @param inputs the inputs of the function, then the parameters that it reads
     * @param parameters the number of parameters among them
     * @return no program if the function writes to tensors outside of it, if no output requires a gradient, or if
     *     {@link Partition#of} cannot split the program because of a write in place
     */
    static Attempt record(
            TensorFunction function, Device device, boolean keepsAttention, int parameters, Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            int own = inputs.length - parameters;
            RecordedRun run = Recorder.run(function, Map.of(), Arrays.copyOf(inputs, own));
            Program ofForward = run.program();
            ofForward.closeConstants();
            Tensor[] plain = scope.escapeAll(run.outputs());
            if (ofForward.writesOutside()) { // it must not run a second time
                return new Attempt(
                        null,
                        "it writes to a tensor outside of it: "
                                + ofForward.firstWriteOutside().orElseThrow(),
                        plain);
            }
            List<Layout> gradOutputs = new ArrayList<>();
            List<Tensor> all = new ArrayList<>(List.of(inputs));
            for (Tensor output : plain) {
                if (output != null && output.requires_grad()) {
                    gradOutputs.add(Layout.contiguous(DType.of(output), Tensors.shape(output)));
                    all.add(torch.ones_like(output).contiguous());
                } else if (output != null) {
                    gradOutputs.add(null);
                }
            }
            if (all.size() == inputs.length) {
                return new Attempt(null, "none of its outputs requires a gradient", plain);
            }
            TensorFunction both = given -> bothPasses(function, own, inputs, given);
            Program joint = Recorder.record(both, all.toArray(new Tensor[0]));
            DifferentiableProgram program = null;
            try {
                requireNoGradient(joint);
                Program prepared = device.isCuda()
                        ? FusionPasses.prepare(
                                keepsAttention ? joint : FusionPasses.fuseAttention(joint, device), device)
                        : FusionPasses.simplify(joint);
                Partition parts =
                        Partition.of(prepared, inputs.length, plain.length).orElse(null);
                if (parts == null) {
                    return new Attempt(null, Partition.obstacle(prepared, inputs.length, plain.length), plain);
                }
                program = new DifferentiableProgram(
                        joint, device.isCuda() ? parts.fused(device) : parts, plain.length, gradOutputs, device);
            } finally {
                if (program == null) {
                    joint.closeConstants();
                }
            }
            Arrays.stream(plain).filter(Objects::nonNull).forEach(Tensor::close);
            return new Attempt(program, "", null);
        }
    }

    /** Rejects a function whose gradient would silently miss a tensor that is neither an input nor a parameter. */
    static void requireNoGradient(Program recorded) {
        for (Tensor constant : recorded.constants().values()) {
            if (constant.requires_grad()) {
                throw new IllegalStateException("the function reads a tensor of shape "
                        + Arrays.toString(Tensors.shape(constant))
                        + " that requires a gradient; pass it to Compiled.of(function, parameters)");
            }
        }
    }

    /** The identity. Its output is not a leaf, so that views of it can be changed in place by {@code t_} and others. */
    private static final class Identity extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            return new Tensor[] {inputs[0].detach()};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            return gradOutputs;
        }
    }

    /** Returns the outputs of the function and the gradients of its inputs and parameters. */
    private static Tensor[] bothPasses(TensorFunction function, int own, Tensor[] inputs, Tensor... given) {
        try (var scope = MemoryScope.open()) {
            Tensor[] leaves = inputs.clone(); // parameters are leaves already
            Tensor[] arguments = new Tensor[own];
            for (int i = 0; i < own; i++) {
                leaves[i] = given[i].detach().set_requires_grad(inputs[i].requires_grad());
                arguments[i] = inputs[i].is_leaf() ? leaves[i] : new Identity().apply(leaves[i])[0];
            }
            Tensor[] results = function.apply(arguments);
            Tensor[] differentiable = Arrays.stream(results)
                    .filter(result -> result != null && result.requires_grad())
                    .toArray(Tensor[]::new);
            Tensor[] gradients;
            try (var ofHost = Autocast.of(Device.cpu(), DType.FLOAT32);
                    var ofDevice =
                            Autocast.of(Device.of(leaves[0]), DType.FLOAT32)) { // the caller's backward pass is outside
                gradients = Backward.of(differentiable)
                        .with(Arrays.copyOfRange(given, inputs.length, inputs.length + differentiable.length))
                        .gradientsWhereRequired(leaves);
            }
            Stream<Tensor> outputs = Arrays.stream(results).map(result -> result == null ? null : result.detach());
            return scope.escapeAll(
                    Stream.concat(outputs, Arrays.stream(gradients)).toArray(Tensor[]::new));
        }
    }

    private int[] savedOutputs() {
        List<View> all = parts.forward().outputs();
        return all.subList(outputs, all.size()).stream()
                .mapToInt(saved -> IntStream.range(0, outputs)
                        .filter(i -> !sharesMemory[i]
                                && all.get(i) != null
                                && all.get(i).value() == saved.value())
                        .findFirst()
                        .orElse(-1))
                .toArray();
    }

    /** Returns the outputs of the function; null for one that does not exist. */
    Tensor[] call(Tensor... inputs) {
        Tensor[] existing = apply(inputs);
        Tensor[] all = new Tensor[outputs];
        int next = 0;
        for (int i = 0; i < outputs; i++) {
            if (parts.forward().outputs().get(i) != null) {
                all[i] = gradOutputs.get(next) == null ? existing[next].detach() : existing[next];
                next++;
            }
        }
        return all;
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        Tensor[] all = forward.run(inputs);
        for (int i = 0; i < outputs; i++) {
            all[i] = sharesMemory[i] ? all[i].clone() : all[i];
        }
        ctx.onceDifferentiable();
        for (int i = 0; i < savedOutputs.length; i++) {
            // A caller that writes to an output must not change a saved value unnoticed.
            ctx.save(savedOutputs[i] < 0 ? all[outputs + i] : all[savedOutputs[i]]);
        }
        return Arrays.stream(all, 0, outputs).filter(Objects::nonNull).toArray(Tensor[]::new);
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... given) {
        List<Tensor> inputs = new ArrayList<>();
        for (int i = 0; i < savedOutputs.length; i++) {
            inputs.add(savedOutputs[i] < 0 ? ctx.saved(i) : saved(i, ctx.saved(i)));
        }
        try (var noGrad = NoGrad.open()) {
            for (int i = 0; i < gradOutputs.size(); i++) {
                Layout layout = gradOutputs.get(i);
                if (layout != null) {
                    inputs.add(
                            given[i] == null
                                    ? torch.zeros(layout.shape(), device.options(layout.dtype()))
                                    : given[i].resolve_conj().resolve_neg().contiguous());
                }
            }
        }
        return backward.run(inputs.toArray(new Tensor[0]));
    }

    /** Returns saved value i, which is in the memory of an output. */
    private Tensor saved(int i, Tensor output) {
        Layout ofOutput = parts.forward().outputs().get(savedOutputs[i]).layout();
        Layout ofSaved = parts.backward().inputs().get(i).layout();
        return Interpreter.read(new View(new ProgramValue(0, ofOutput), ofSaved), output);
    }

    /** Returns the programs of both passes. */
    String explain() {
        return joint.described("recorded")
                + parts.forward().described("forward")
                + parts.backward().described("backward");
    }

    @Override
    public void close() {
        joint.closeConstants();
    }
}
