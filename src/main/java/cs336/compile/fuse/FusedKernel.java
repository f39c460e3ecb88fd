package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Operation;
import cs336.compile.program.Operator;
import cs336.compile.program.Program;
import cs336.compile.program.Value;
import cs336.torch.Device;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** An operator that computes a group of pointwise operations and reductions in one kernel. */
final class FusedKernel implements Operator {
    private final FusionGroup group;
    private final List<Value> inputs;
    private final List<Value> outputs;
    private final Interpreter onCpu;

    private FusedKernel(FusionGroup group, List<Value> outputs) {
        this.group = group;
        this.outputs = outputs;
        inputs = Fusion.inputs(group);
        List<View> results = outputs.stream().map(value -> new View(value, value.layout())).toList();
        int size = group.members().stream()
                .flatMap(member -> member.creates().stream())
                .mapToInt(Value::id)
                .max()
                .orElse(0);
        size = Math.max(size, inputs.stream().mapToInt(Value::id).max().orElse(0)) + 1;
        onCpu = new Interpreter(new Program(inputs, Map.of(), group.members(), results, size));
    }

    /** Returns the operation that computes these values of a group. */
    static Operation of(FusionGroup group, List<Value> outputs, Device device) {
        var kernel = new FusedKernel(group, outputs);
        List<Argument> arguments = new ArrayList<>();
        kernel.inputs.forEach(value -> arguments.add(new View(value, value.layout())));
        return new Operation(kernel, arguments, outputs, List.of(), null, group.members().get(0).source());
    }

    FusionGroup group() {
        return group;
    }

    List<Value> inputs() {
        return inputs;
    }

    List<Value> outputs() {
        return outputs;
    }

    @Override
    public String name() {
        return "fused";
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
        Tensor[] in = operation.reads().stream().map(read).toArray(Tensor[]::new);
        return Arrays.asList(onCpu.run(in));
    }

    /** Returns the members as a program. */
    @Override
    public String toString() {
        var text = new StringBuilder("fused {\n");
        group.members().forEach(member -> text.append("    ").append(member).append('\n'));
        return text.append("} ").toString();
    }
}
