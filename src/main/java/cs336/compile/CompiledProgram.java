package cs336.compile;

import cs336.compile.fuse.FusionPasses;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.Tensor;

/** A recorded function of tensors for inputs of given dtypes, shapes and strides, ready to run. */
final class CompiledProgram implements AutoCloseable {
    private final Program recorded;
    private final Program optimized;
    private final Interpreter interpreter;
    private final boolean[] isCopied;

    private CompiledProgram(Program recorded, Program optimized) {
        this.recorded = recorded;
        this.optimized = optimized;
        interpreter = new Interpreter(optimized);
        isCopied = new boolean[optimized.outputs().size()];
        Set<ProgramValue> storages = new HashSet<>(optimized.inputs());
        storages.addAll(optimized.constants().keySet());
        for (int i = 0; i < isCopied.length; i++) {
            View output = optimized.outputs().get(i);
            isCopied[i] = output != null && !storages.add(output.value().root());
        }
    }

    /**
     * Runs a function and compiles what it did.
     *
     * @param fuse whether pointwise operations and reductions become generated kernels; otherwise the program computes
     *     exactly what the function did
     * @param names names of parameters for printed programs
     * @param results receives the outputs of this run, in the caller's memory scope
     */
    static CompiledProgram record(
            TensorFunction function,
            Device device,
            boolean fuse,
            Map<String, Tensor> names,
            AtomicReference<Tensor[]> results,
            Tensor... inputs) {
        Program recorded = Recorder.record(function, names, results, inputs);
        Program optimized = fuse ? FusionPasses.fuse(recorded, device) : FusionPasses.simplify(recorded);
        return new CompiledProgram(recorded, optimized);
    }

    /**
     * Runs the program.
     *
     * @return the outputs, in the caller's memory scope. No two of them share memory, or share memory with an input.
     */
    Tensor[] run(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor[] outputs = interpreter.run(inputs);
            for (int i = 0; i < outputs.length; i++) {
                if (outputs[i] != null) {
                    outputs[i] = scope.escape(isCopied[i] ? outputs[i].clone() : outputs[i]);
                }
            }
            return outputs;
        }
    }

    /** Returns what was recorded. */
    Program recorded() {
        return recorded;
    }

    /** Returns what runs. */
    Program optimized() {
        return optimized;
    }

    @Override
    public void close() {
        recorded.constants().values().forEach(Tensor::close);
    }
}
