package cs336.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options that select language models, passes and precisions. */
public final class ModelCaseOptions {
    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Option(
            names = "--pass",
            paramLabel = "<pass>[,<pass>...]",
            description =
                    "forward (as in inference), forward-graph (with the loss and the autograd graph), forward-backward, step"
                            + " (with AdamW)")
    private String passes;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description =
                    "fp32 (TF32 off), tf32 (fp32 tensors, matmuls in TF32), bf16 (autocast), fp16 (autocast and loss"
                            + " scaling)")
    private List<String> dtypes;

    /** @param defaults the passes to run if --pass is not given */
    public ModelCaseOptions(Pass... defaults) {
        passes = Arrays.stream(defaults).map(Pass::toString).collect(Collectors.joining(","));
    }

    /** Returns the given value, or the default of the chosen edition; see {@link ModelOptions#orDefault}. */
    <T> T orDefault(T value, T default2025, T default2024) {
        return models.orDefault(value, default2025, default2024);
    }

    /**
     * Returns every combination. Models vary slowest, then precisions, then passes.
     *
     * @throws IllegalArgumentException if an option is invalid
     */
    public List<ModelCase> cases() {
        List<Precision> precisions = dtypes.stream().map(Precision::parse).toList();
        List<Pass> ps = Arrays.stream(passes.split(",", -1)).map(Pass::parse).toList();
        var cases = new ArrayList<ModelCase>();
        for (ModelOptions.Model model : models.models()) {
            for (Precision precision : precisions) {
                for (Pass pass : ps) {
                    cases.add(new ModelCase(model, precision, pass));
                }
            }
        }
        return cases;
    }

    /**
     * Returns every combination, after a check that each fits into the memory of a machine.
     *
     * @throws IllegalArgumentException if an option is invalid or a case needs more memory than is available
     */
    public Stream<ModelCase> cases(MachineSurvey machine) {
        List<ModelCase> cases = cases();
        cases.forEach(c -> c.requireFits(machine));
        return cases.stream();
    }
}
