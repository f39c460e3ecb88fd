package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.Normalization;
import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.units.FlopRate;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * The compute times of one device in a training step: layers in the order of the forward pass, and the optimizer.
 *
 * @param layers one layer for each trainable tensor
 * @param optimizer time to update all parameters
 * @param pairs number of matrix pairs of a block that tensor parallelism splits, see {@link ModelShape#pairs}
 * @param dModel D, the width of the residual stream
 */
public record StepModel(List<StepLayer> layers, Seconds optimizer, int pairs, int dModel) {
    /**
     * A trainable tensor and the compute time of its layer.
     *
     * @param name name in figures
     * @param block index of its block from 0, or another number before and after the blocks; FSDP gathers the tensors
     *     of one index together
     * @param inBlock whether the index is that of a block, which tensor parallelism splits
     * @param parameters number of elements
     * @param forward time in the forward pass
     * @param backward time in the backward pass, after which the gradient is ready
     */
    public record StepLayer(
            String name, int block, boolean inBlock, long parameters, Seconds forward, Seconds backward) {}

    public StepModel {
        Objects.requireNonNull(layers, "layers must not be null");
        layers = List.copyOf(layers);
        ArgumentCheck.atLeast("layers", 1, layers.size());
    }

    /**
     * Returns the layers of a {@link cs336.basics.TransformerLM} in the order of their registration. Measured times are
     * distributed over the matrices in proportion to their sizes, and so to their FLOP; other tensors take no time.
     *
     * @param forward time of the forward pass of all layers
     * @param backward time of the backward pass of all layers
     * @param optimizer time to update all parameters
     */
    public static StepModel of(TransformerConfig config, Seconds forward, Seconds backward, Seconds optimizer) {
        long d = config.dModel();
        boolean is2024 = config.edition() == ModelEdition.SPRING_2024;
        int gains = Normalization.named(config.normalization()).parametersPerFeature();
        List<ParameterTensor> tensors = new ArrayList<>();
        tensors.add(new ParameterTensor("token embeddings", -1, config.vocabSize() * d, is2024));
        if (is2024) {
            tensors.add(new ParameterTensor("position embeddings", -1, config.contextLength() * d, false));
        }
        for (int block = 0; block < config.numLayers(); block++) {
            addNorm(tensors, block, gains, d);
            for (String name : List.of("q", "k", "v", "output")) {
                tensors.add(new ParameterTensor(name, block, d * d, true));
            }
            addNorm(tensors, block, gains, d);
            for (String name : is2024 ? List.of("w1", "w2") : List.of("w1", "w2", "w3")) {
                tensors.add(new ParameterTensor(name, block, d * config.dFf(), true));
            }
        }
        addNorm(tensors, config.numLayers(), gains, d);
        if (!is2024) {
            tensors.add(new ParameterTensor("head", config.numLayers(), config.vocabSize() * d, true));
        }
        double all = tensors.stream()
                .filter(ParameterTensor::inMatmul)
                .mapToLong(ParameterTensor::parameters)
                .sum();
        List<StepLayer> layers = new ArrayList<>();
        for (ParameterTensor t : tensors) {
            double fraction = t.inMatmul ? t.parameters / all : 0;
            boolean inBlock = t.block >= 0 && t.block < config.numLayers();
            layers.add(new StepLayer(
                    t.name, t.block, inBlock, t.parameters, forward.times(fraction), backward.times(fraction)));
        }
        return new StepModel(layers, optimizer, 2, config.dModel());
    }

    private static void addNorm(List<ParameterTensor> tensors, int block, int gains, long features) {
        for (int gain = 0; gain < gains; gain++) {
            tensors.add(new ParameterTensor("norm", block, features, false));
        }
    }

    private record ParameterTensor(String name, int block, long parameters, boolean inMatmul) {}

    /**
     * Returns a model of blocks of two linear layers that run at a fraction of the peak of a device.
     *
     * @param tokens tokens of the device
     * @param utilization fraction of the peak (MFU), above 0 and at most 1
     * @param optimizer time to update all parameters on one device
     * @throws IllegalArgumentException if the utilization is out of range
     */
    public static StepModel feedForward(
            ModelShape shape, Tokens tokens, Accelerator device, double utilization, Seconds optimizer) {
        if (!(utilization > 0 && utilization <= 1)) {
            throw new IllegalArgumentException("utilization must be above 0 and at most 1, not " + utilization);
        }
        Seconds forward = shape.forward(tokens)
                .at(new FlopRate(device.peak().perSecond() * utilization))
                .times(1.0 / shape.blocks());
        List<StepLayer> layers = new ArrayList<>();
        for (int block = 0; block < shape.blocks(); block++) {
            for (String name : List.of("w1", "w2")) {
                Seconds half = forward.times(0.5);
                layers.add(new StepLayer(name, block, true, shape.blockMatrices() / 2, half, half.times(2)));
            }
        }
        return new StepModel(layers, optimizer, shape.pairs(), shape.dModel());
    }

    /** Returns the number of parameters. */
    public long parameters() {
        return layers.stream().mapToLong(StepLayer::parameters).sum();
    }

    /** Returns the compute time of forward and backward pass. */
    public Seconds passes() {
        return new Seconds(layers.stream()
                .mapToDouble(layer -> layer.forward.value() + layer.backward.value())
                .sum());
    }

    /** Returns the time of a step that sends nothing. */
    public Seconds alone() {
        return passes().plus(optimizer);
    }
}
