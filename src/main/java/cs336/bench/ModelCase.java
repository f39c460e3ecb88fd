package cs336.bench;

import java.util.Locale;

/**
 * What is measured of a language model: in what it computes, and how much of a training step. A case before it becomes
 * text.
 */
public record ModelCase(ModelOptions.Model model, Precision precision, Pass pass) {
    private static final double GB = 1e9;

    /**
     * Asserts that there is memory for what the pass is certain to need. Whether activations fit too, the run will
     * show.
     *
     * @throws IllegalArgumentException if there is not
     */
    void requireFits(MachineSurvey survey) {
        long needed = model.config().parameterCount() * Float.BYTES * pass.valuesPerParameter();
        if (needed > survey.availableBytes()) {
            throw new IllegalArgumentException(String.format(
                    Locale.ROOT,
                    "too little memory: --size %s --pass %s needs %.1f GB for %s alone, and %s has %.1f GB available",
                    model.label(),
                    pass,
                    needed / GB,
                    switch (pass) {
                        case FORWARD, FORWARD_GRAPH -> "parameters";
                        case FORWARD_BACKWARD -> "parameters and gradients";
                        case STEP -> "parameters, gradients and optimizer state";
                    },
                    survey.device(),
                    survey.availableBytes() / GB));
        }
    }
}
