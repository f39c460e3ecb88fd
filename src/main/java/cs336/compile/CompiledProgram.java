package cs336.compile;

import cs336.checkpointing.RandomState;
import cs336.compile.fuse.FusionPasses;
import cs336.compile.fuse.MasterWeights;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Interpreter.ProgramRun;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.Recorder.RecordedRun;
import cs336.compile.trace.TensorFunction;
import cs336.torch.CudaGraph;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/** A recorded function of tensors for inputs of given dtypes, shapes and strides, ready to run. */
final class CompiledProgram implements AutoCloseable {
    /**
     * The run of a function that was recorded and compiled.
     *
     * @param outputs the outputs of this run, in the caller's memory scope
     */
    record CompiledRun(CompiledProgram program, Tensor[] outputs) {}

    private final Program recorded;
    private final Program optimized;
    private final Interpreter interpreter;
    private final Device device;
    private final boolean keepsAttention;
    private final boolean[] isCopied;
    private CudaGraph graph; // after the first call of runGraph
    private StaticInputs graphInputs;
    private Tensor[] graphOutputs;

    private CompiledProgram(Program recorded, Program optimized, Device device, boolean keepsAttention) {
        this.keepsAttention = keepsAttention;
        this.recorded = recorded;
        this.optimized = optimized;
        this.device = device;
        interpreter = new Interpreter(optimized);
        isCopied = optimized.sharedOutputs(false);
    }

    /**
     * Runs a function, records its operations, and compiles them.
     *
     * @param keepsAttention whether plain attention still stores its scores
     * @param names names of parameters for printed programs
     * @param weights the casts that an optimizer does in place of a fused program
     * @throws IllegalStateException if a gradient of an output is lost
     */
    static CompiledRun record(
            TensorFunction function,
            Device device,
            boolean keepsAttention,
            Map<String, Tensor> names,
            MasterWeights weights,
            Tensor... inputs) {
        RecordedRun run = Recorder.run(function, names, inputs);
        Program recorded = run.program();
        CompiledProgram program = null;
        try {
            if (losesGradient(run)) {
                DifferentiableProgram.requireNoGradient(recorded);
                throw new IllegalStateException("an output requires a gradient for a tensor that the function creates");
            }
            // On the CPU the recorded operators are faster than their lowered forms.
            Program optimized = device.isCuda()
                    ? fused(recorded, device, keepsAttention, weights)
                    : FusionPasses.simplify(recorded);
            program = new CompiledProgram(recorded, optimized, device, keepsAttention);
        } finally {
            if (program == null) {
                recorded.closeConstants();
            }
        }
        return new CompiledRun(program, program.separated(run.outputs()));
    }

    /**
     * Returns whether an output has a gradient. With grad mode off, an input, a parameter or a view of one has none,
     * although it requires one.
     */
    private static boolean losesGradient(RecordedRun run) {
        Program program = run.program();
        return IntStream.range(0, run.outputs().length)
                .filter(i -> run.outputs()[i] != null && run.outputs()[i].requires_grad())
                .mapToObj(i -> program.outputs().get(i).value().root())
                .anyMatch(root -> GradMode.is_enabled() || !program.outside().contains(root));
    }

    private static Program fused(Program recorded, Device device, boolean keepsAttention, MasterWeights weights) {
        Program program = keepsAttention ? recorded : FusionPasses.fuseAttention(recorded, device);
        return FusionPasses.fuse(program, device, weights);
    }

    /**
     * Runs the program.
     *
     * @return the outputs, in the caller's memory scope. They share memory neither with each other nor with an input.
     */
    Tensor[] run(Tensor... inputs) {
        return separated(interpreter.run(inputs));
    }

    /** Starts a run that the caller advances in sections; see {@link Interpreter#start}. */
    ProgramRun start(Tensor... inputs) {
        return interpreter.start(inputs);
    }

    /** Returns the program that a run executes. */
    Program optimized() {
        return optimized;
    }

    /** Returns an output that a run has reached, like {@link #run}. */
    Tensor output(ProgramRun run, int i) {
        Tensor output = run.output(i);
        return isCopied[i] ? output.clone() : output;
    }

    /** Returns the outputs of a run with copies of those that share memory. */
    private Tensor[] separated(Tensor[] outputs) {
        Tensor[] separated = outputs.clone();
        for (int i = 0; i < outputs.length; i++) {
            if (isCopied[i]) {
                separated[i] = outputs[i].clone();
                outputs[i].close();
            }
        }
        return separated;
    }

    /**
     * Runs the program on a GPU as a CUDA graph, which the first call records.
     *
     * @return the outputs, in the caller's memory scope; the next call overwrites their elements
     * @throws IllegalStateException if the program writes to tensors that exist outside of it
     */
    Tensor[] runGraph(Tensor... inputs) {
        if (graph == null) {
            record(inputs);
        }
        graphInputs.copy(inputs);
        graph.replay();
        return Compiled.inNewHandles(graphOutputs);
    }

    private void record(Tensor... inputs) {
        if (optimized.writesOutside()) {
            throw new IllegalStateException(
                    "a function that writes to its inputs or to tensors outside of it cannot run as a CUDA graph");
        }
        CudaGraph recording = CudaGraph.on(device);
        RandomState random = RandomState.of(inputs);
        try (var scope = MemoryScope.open()) {
            graphInputs = new StaticInputs(inputs);
            graphInputs.copy(inputs); // for the first run
            recording.warmUp(() -> run(graphInputs.tensors()));
            recording.record(() -> graphOutputs = Arrays.stream(run(graphInputs.tensors()))
                    .map(output -> output == null ? null : MemoryScope.keep(output))
                    .toArray(Tensor[]::new));
            graph = recording;
            random.restore(); // the first replay draws the numbers that a later one draws in this state
        } finally {
            if (graph == null) { // the recording failed, and the next call records again
                recording.close();
                if (graphInputs != null) {
                    graphInputs.close();
                    graphInputs = null;
                }
            }
        }
    }

    /** Returns the recorded program, the fused program, and the sources of the generated kernels. */
    String explain() {
        Program fused = device.isCuda() ? optimized : fused(recorded, device, keepsAttention, MasterWeights.NONE);
        var text = new StringBuilder(recorded.described("recorded") + fused.described("fused"));
        FusionPasses.kernels(fused)
                .forEach(kernel -> text.append("kernel of " + kernel.name() + ":\n" + kernel.source() + "\n"));
        return text.toString();
    }

    @Override
    public void close() {
        if (graph != null) {
            graphInputs.close();
            Arrays.stream(graphOutputs).filter(Objects::nonNull).forEach(Tensor::close);
            graph.close();
        }
        optimized.closeConstants(); // includes those of the recorded program
    }
}
