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

/**
 * The work of one device in a training step: its layers in the order of the forward pass, and the optimizer.
 *
 * @param layers one for each learned tensor
 * @param optimizer the update of all parameters
 * @param pairs of each block that tensor parallelism splits, see {@link ModelShape#pairs}
 * @param dModel D
 */
public record StepModel(List<StepLayer> layers, Seconds optimizer, int pairs, int dModel) {
    /**
     * A learned tensor and what is done with it.
     *
     * @param name for pictures
     * @param block which block it belongs to, from 0; tensors of one block are gathered together. What comes before and
     *     after the blocks has numbers of its own
     * @param inBlock whether that is a block of the model, which tensor parallelism splits
     * @param parameters of the tensor
     * @param forward time in the forward pass
     * @param backward time in the backward pass, at whose end its gradient is there
     */
    public record StepLayer(
            String name, int block, boolean inBlock, long parameters, Seconds forward, Seconds backward) {}

    public StepModel {
        layers = List.copyOf(layers);
        ArgumentCheck.atLeast("layers", 1, layers.size());
    }

    /**
     * One of our Transformers, in the order of its registration. Measured times are split among matrices in proportion
     * to their sizes, for so are their operations; tables and gains take none.
     *
     * @param forward of all layers
     * @param backward of all layers
     */
    public static StepModel of(TransformerConfig config, Seconds forward, Seconds backward, Seconds optimizer) {
        long d = config.dModel();
        boolean is2024 = config.form() == ModelEdition.SPRING_2024;
        int gains = Normalization.named(config.normalization()).parametersPerFeature();
        List<ParameterTensor> tensors = new ArrayList<>();
        tensors.add(new ParameterTensor("token embeddings", -1, config.vocabSize() * d, is2024));
        if (is2024) tensors.add(new ParameterTensor("position embeddings", -1, config.contextLength() * d, false));
        for (int block = 0; block < config.numLayers(); block++) {
            for (String name : List.of("q", "k", "v", "output"))
                tensors.add(new ParameterTensor(name, block, d * d, true));
            for (String name : is2024 ? List.of("w1", "w2") : List.of("w1", "w2", "w3")) {
                tensors.add(new ParameterTensor(name, block, d * config.dFf(), true));
            }
            for (int norm = 0; norm < 2 * gains; norm++) tensors.add(new ParameterTensor("norm", block, d, false));
        }
        for (int norm = 0; norm < gains; norm++) tensors.add(new ParameterTensor("norm", config.numLayers(), d, false));
        if (!is2024) tensors.add(new ParameterTensor("head", config.numLayers(), config.vocabSize() * d, true));
        double all = tensors.stream()
                .filter(ParameterTensor::multiplied)
                .mapToLong(ParameterTensor::parameters)
                .sum();
        List<StepLayer> layers = new ArrayList<>();
        for (ParameterTensor t : tensors) {
            double share = t.multiplied ? t.parameters / all : 0;
            boolean inBlock = t.block >= 0 && t.block < config.numLayers();
            layers.add(
                    new StepLayer(t.name, t.block, inBlock, t.parameters, forward.times(share), backward.times(share)));
        }
        return new StepModel(layers, optimizer, 2, config.dModel());
    }

    private record ParameterTensor(String name, int block, long parameters, boolean multiplied) {}

    /**
     * Blocks of two linear layers, computing at a share of a device's peak.
     *
     * @param tokens of the device
     * @param utilization share of the peak, between 0 and 1
     * @param optimizer the update of all parameters on one device
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

    public long parameters() {
        return layers.stream().mapToLong(StepLayer::parameters).sum();
    }

    /** Forward and backward pass of all layers. */
    public Seconds passes() {
        return new Seconds(layers.stream()
                .mapToDouble(layer -> layer.forward.value() + layer.backward.value())
                .sum());
    }

    /** A step of one device that sends nothing. */
    public Seconds alone() {
        return passes().plus(optimizer);
    }
}
