package cs336.compile;

import cs336.compile.CompiledProgram.CompiledRun;
import cs336.compile.program.Interpreter.ProgramRun;
import cs336.compile.program.Layout;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The static inputs and outputs of one input shape, and its graphs once they are recorded. */
final class ShapeGraph implements AutoCloseable {
    private final CompiledStep step;
    private final List<Tensor> parameters;
    private final Tensor inputs;
    private final Tensor targets;
    private final Tensor loss;
    private Tensor returnedLoss; // the caller's handle to the loss
    private final CudaGraph firstGraph; // null on the CPU
    private CompiledProgram program; // with fusion, after the first step
    private List<GradientStage> stages; // likewise; the graphs without fusion have one
    private List<CudaGraph> graphs = List.of(); // one per stage; one if collectives are in the graph
    private Runnable countCollectives; // counts the collectives in the graph, before each replay
    private Tensor[] gradients; // those that the graphs write, by parameter; null for one without
    private int steps;

    /**
     * @param ofInputs the layout of the inputs, contiguous
     * @param ofTargets the layout of the targets, contiguous
     */
    ShapeGraph(CompiledStep step, Layout ofInputs, Layout ofTargets) {
        this.step = step;
        parameters = step.parameters;
        Device device = step.device;
        firstGraph = device.isCuda() ? CudaGraph.on(device) : null;
        try (var scope = MemoryScope.open()) {
            inputs = MemoryScope.keep(ofInputs.empty(device));
            targets = MemoryScope.keep(ofTargets.empty(device));
            loss = MemoryScope.keep(torch.zeros(new long[0], device.options(DType.FLOAT32)));
            returnedLoss = MemoryScope.keep(new Tensor(loss));
        }
        stages = List.of(new GradientStage(0, allIndices()));
    }

    /** Copies a batch to the inputs of the graph. */
    void load(Tensor newInputs, Tensor newTargets) {
        try (var noGrad = NoGrad.open()) {
            inputs.copy_(newInputs);
            targets.copy_(newTargets);
        }
    }

    /** Returns the loss of the last batch, a 0-dimensional fp32 tensor that the next batch overwrites. */
    Tensor loss() {
        if (returnedLoss.isNull()) { // the caller has closed it
            returnedLoss = MemoryScope.keep(new Tensor(loss));
        }
        return returnedLoss;
    }

    /** Returns the recorded and the fused program and the sources of kernels; empty without fusion. */
    String explain() {
        return program == null ? "" : program.explain();
    }

    /** Returns the number of stages of the passes: 1, or with fusion at most one per overlapping bucket. */
    int stages() {
        return stages.size();
    }

    private List<Integer> allIndices() {
        return IntStream.range(0, parameters.size()).boxed().toList();
    }

    /** Runs both passes on the loaded batch. The consumer gets the gradients when they are in {@code grad()}. */
    void forwardBackward(GradientConsumer consumer) {
        if (firstGraph == null) {
            compute(consumer);
            return;
        }
        if (steps++ < step.warmup) {
            firstGraph.warmUp(() -> compute(consumer));
            return;
        }
        if (graphs.isEmpty()) {
            record(consumer);
        }
        replay(consumer);
    }

    private void compute(GradientConsumer consumer) {
        if (!step.isFused) {
            computePlain();
            consumer.ready(allIndices());
        } else if (program == null) {
            computeAndRecord(consumer);
        } else {
            computeFused(consumer);
        }
        consumer.finish();
    }

    private void computePlain() {
        try (var scope = MemoryScope.open()) {
            copyLoss(step.runPasses(inputs, targets));
        }
    }

    private void copyLoss(Tensor value) {
        try (var noGrad = NoGrad.open()) {
            loss.copy_(value);
        }
    }

    private void computeAndRecord(GradientConsumer consumer) {
        try (var scope = MemoryScope.open()) {
            CompiledRun run;
            try (var local = step.withoutHooks()) {
                run = CompiledProgram.record(
                        step::lossAndGradients,
                        step.device,
                        step.keepsAttention,
                        step.optimizer.parameters(),
                        step.masterWeights(),
                        inputs,
                        targets);
            }
            program = run.program();
            Tensor[] results = run.outputs();
            int[] ofGradients = Arrays.copyOfRange(program.optimized().completions(), 1, results.length);
            stages = GradientStage.of(program.optimized().operations().size(), ofGradients, step.buckets);
            copyLoss(results[0]);
            Tensor[] ofParameters = Arrays.copyOfRange(results, 1, results.length);
            stages.forEach(stage -> deliver(stage, consumer, ofParameters));
        }
    }

    private void computeFused(GradientConsumer consumer) {
        try (var scope = MemoryScope.open();
                var run = program.start(inputs, targets)) {
            for (GradientStage stage : stages) {
                run.advance(stage.end());
                deliver(stage, consumer, outputs(run, stage));
            }
            copyLoss(program.output(run, 0));
        }
    }

    /** Returns the gradients of a stage by parameter, in the caller's memory scope. */
    private Tensor[] outputs(ProgramRun run, GradientStage stage) {
        Tensor[] outputs = new Tensor[parameters.size()];
        stage.parameters().forEach(i -> outputs[i] = program.output(run, i + 1));
        return outputs;
    }

    private void record(GradientConsumer consumer) {
        if (step.isFused && !step.collectivesInGraph) {
            graphs = recordStages();
            return;
        }
        if (step.collectivesInGraph) {
            firstGraph.record(() -> countCollectives = step.ddp.group().recordInGraph(() -> compute(consumer)));
        } else {
            firstGraph.record(this::computePlain);
        }
        gradients = attached();
        graphs = List.of(firstGraph);
    }

    private List<CudaGraph> recordStages() {
        List<CudaGraph> recorded = new ArrayList<>();
        gradients = new Tensor[parameters.size()];
        try (var scope = MemoryScope.open();
                var run = program.start(inputs, targets)) {
            for (GradientStage stage : stages) {
                boolean isFirst = recorded.isEmpty();
                boolean isLast = recorded.size() == stages.size() - 1;
                CudaGraph graph = isFirst ? firstGraph : firstGraph.continued();
                recorded.add(graph);
                graph.record(() -> {
                    run.advance(stage.end());
                    Tensor[] outputs = outputs(run, stage);
                    stage.parameters().forEach(i -> gradients[i] = MemoryScope.keep(outputs[i]));
                    if (isLast) {
                        copyLoss(program.output(run, 0));
                    }
                });
            }
        }
        return recorded;
    }

    /** Returns new handles to the current gradients, by parameter; null for one without. */
    private Tensor[] attached() {
        try (var scope = MemoryScope.open()) {
            return parameters.stream()
                    .map(Tensor::mutable_grad)
                    .map(gradient -> gradient.defined() ? MemoryScope.keep(new Tensor(gradient)) : null)
                    .toArray(Tensor[]::new);
        }
    }

    private void replay(GradientConsumer consumer) {
        if (step.collectivesInGraph) {
            countCollectives.run();
            firstGraph.replay();
            stages.forEach(stage -> attach(stage, gradients));
            return;
        }
        for (int i = 0; i < graphs.size(); i++) {
            graphs.get(i).replay();
            deliver(stages.get(i), consumer, gradients);
        }
        consumer.finish();
    }

    /** Attaches the gradients of a stage, and passes them on. */
    private void deliver(GradientStage stage, GradientConsumer consumer, Tensor... ofParameters) {
        attach(stage, ofParameters);
        consumer.ready(stage.parameters());
    }

    /** Sets the gradients of the parameters of a stage; null leaves one undefined. */
    private void attach(GradientStage stage, Tensor... ofParameters) {
        try (var scope = MemoryScope.open()) {
            for (int i : stage.parameters()) {
                if (ofParameters[i] != null) {
                    parameters.get(i).mutable_grad().put(ofParameters[i]);
                }
            }
        }
    }

    @Override
    public void close() {
        graphs.forEach(CudaGraph::close);
        if (firstGraph != null) {
            firstGraph.close();
        }
        if (program != null) {
            program.close();
        }
        if (gradients != null) {
            Arrays.stream(gradients).filter(Objects::nonNull).forEach(Tensor::close);
        }
        List.of(inputs, targets, loss, returnedLoss).forEach(Tensor::close);
    }
}
