package cs336.bench;

import cs336.basics.ModelEdition;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of a command that measures language models in several precisions and passes: which combinations. */
public final class ModelCaseOptions {
    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Option(
            names = "--pass",
            paramLabel = "<pass>[,<pass>...]",
            description =
                    "forward (no graph kept), forward-graph (kept, with the loss, and dropped), forward-backward, step (with"
                            + " AdamW). Default: ${DEFAULT-VALUE}")
    private String passes;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description =
                    "fp32 (TF32 off), tf32 (fp32 tensors, TF32 products), bf16 (autocast), fp16 (autocast; where there are"
                            + " gradients, a scaled loss). Default: ${DEFAULT-VALUE}")
    private List<String> dtypes;

    /** The options of a command that runs these passes unless the user says otherwise. */
    public ModelCaseOptions(Pass... usual) {
        passes = Arrays.stream(usual).map(Pass::toString).collect(Collectors.joining(","));
    }

    /** Whose form of the models is run. */
    ModelEdition edition() {
        return models.edition();
    }

    /**
     * Every combination, checked. From the list that varies slowest: models, precisions, passes.
     *
     * @throws IllegalArgumentException if an option is wrong
     */
    public List<ModelCase> cases() {
        List<Precision> precisions = dtypes.stream().map(Precision::parse).toList();
        List<Pass> ps = Arrays.stream(passes.split(",", -1)).map(Pass::parse).toList();
        var cases = new ArrayList<ModelCase>();
        for (ModelOptions.Model model : models.models()) {
            for (Precision precision : precisions) {
                for (Pass pass : ps) cases.add(new ModelCase(model, precision, pass));
            }
        }
        return cases;
    }

    /**
     * The same for a machine.
     *
     * @throws IllegalArgumentException if an option is wrong, or a case needs more memory than the machine has
     */
    public Stream<ModelCase> cases(MachineSurvey machine) {
        List<ModelCase> cases = cases();
        cases.forEach(c -> c.requireFits(machine));
        return cases.stream();
    }
}
