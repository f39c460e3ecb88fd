package cs336.bench;

import static cs336.units.UnitFactors.GB;

import java.util.Locale;

/** A language model, a precision and a pass to measure; {@link ModelCases} converts it into a {@link Case}. */
public record ModelCase(ModelOptions.Model model, Precision precision, Pass pass) {
    /**
     * Checks that parameters, gradients and optimizer state fit into memory, as far as the pass needs them. Activations
     * are not counted.
     *
     * @throws IllegalArgumentException if they do not fit
     */
    void requireFits(MachineSurvey survey) {
        double needed = (double) model.config().parameterCount() * Float.BYTES * pass.valuesPerParameter();
        if (needed > survey.availableBytes()) {
            throw new IllegalArgumentException(String.format(
                    Locale.ROOT,
                    "too little memory: --size %s --pass %s needs %,.1f GB for %s alone, and %s has %.1f GB available",
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
