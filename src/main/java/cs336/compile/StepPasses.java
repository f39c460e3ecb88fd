package cs336.compile;

import cs336.basics.GradScaler;
import cs336.basics.Losses;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.NoSync;
import cs336.torch.Backward;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;

/** The forward and backward pass of a training step, operator by operator. */
final class StepPasses {
    private final TransformerLM model;
    private final DistributedDataParallel ddp; // null on a single rank
    private final Precision precision;
    private final GradScaler scaler;
    private final Map<String, Tensor> named;
    private final List<Tensor> parameters;

    /** The number of tokens whose logits are computed at a time; 0 for all. */
    int lossRows;

    /** @param named the parameters that the optimizer updates */
    StepPasses(
            TransformerLM model,
            DistributedDataParallel ddp,
            Precision precision,
            GradScaler scaler,
            Map<String, Tensor> named) {
        this.model = model;
        this.ddp = ddp;
        this.precision = precision;
        this.scaler = scaler;
        this.named = named;
        parameters = List.copyOf(named.values());
    }

    Device device() {
        return model.device();
    }

    List<Tensor> parameters() {
        return parameters;
    }

    Map<String, Tensor> namedParameters() {
        return named;
    }

    /** Returns the group that averages gradients. */
    ProcessGroup group() {
        return ddp.group();
    }

    /** Runs both passes, and returns the loss, in the caller's memory scope. */
    Tensor run(Tensor inputs, Tensor targets) {
        try (var scope = MemoryScope.open();
                var local = withoutHooks()) {
            Tensor loss = loss(inputs, targets);
            try (var range = ProfilerRange.of("backward")) {
                scaler.scale(loss).backward();
            }
            return scope.escape(loss);
        }
    }

    /**
     * Returns the loss, and the gradient of the scaled loss for each parameter; null for a frozen one.
     *
     * @param batch inputs and targets
     */
    Tensor[] lossAndGradients(Tensor... batch) {
        try (var scope = MemoryScope.open()) {
            Tensor loss = loss(batch[0], batch[1]);
            Tensor[] gradients =
                    Backward.of(scaler.scale(loss)).gradientsWhereRequired(parameters.toArray(new Tensor[0]));
            return scope.escapeAll(Stream.concat(Stream.of(loss.detach()), Arrays.stream(gradients))
                    .toArray(Tensor[]::new));
        }
    }

    private Tensor loss(Tensor inputs, Tensor targets) {
        try (var range = ProfilerRange.of("forward");
                var autocast = precision.autocast(model.device())) {
            return lossRows == 0
                    ? Losses.crossEntropy(model.forward(inputs), targets)
                    : model.loss(inputs, targets, lossRows);
        }
    }

    /** Opens a scope in which backward passes start no collectives; null without ranks. */
    NoSync withoutHooks() {
        return ddp == null ? null : ddp.noSync();
    }
}
