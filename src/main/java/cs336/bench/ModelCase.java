package cs336.bench;

import static cs336.units.UnitFactors.GB;

import cs336.torch.Device;
import cs336.torch.MemoryStats;
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
        String options = "--size " + model.label() + " --pass " + pass;
        requireFits(options, model, pass, 1, survey.device(), survey.availableBytes());
    }

    /**
     * Checks that parameters, gradients and optimizer state of a training step fit into memory. Activations are not
     * counted.
     *
     * @throws IllegalArgumentException if they do not fit
     */
    public static void requireTrainable(ModelOptions.Model model, Device device) {
        requireTrainable("the model " + model.label(), model, 1, device);
    }

    /**
     * Checks that parameters, gradients and optimizer state of all processes of a training step fit into the memory
     * that the processes share. Activations are not counted.
     *
     * @param name the model and the processes, for the error
     * @param copies number of times that the processes together store this state
     * @throws IllegalArgumentException if they do not fit
     */
    public static void requireTrainable(String name, ModelOptions.Model model, double copies, Device device) {
        requireFits(name, model, Pass.STEP, copies, device.toString(), MemoryStats.available(device));
    }

    private static void requireFits(
            String name, ModelOptions.Model model, Pass pass, double copies, String device, long availableBytes) {
        double needed = copies * model.config().parameterCount() * Float.BYTES * pass.valuesPerParameter();
        if (needed > availableBytes) {
            throw new IllegalArgumentException(String.format(
                    Locale.ROOT,
                    "too little memory: %s needs %,.1f GB for %s alone, and %s has %.1f GB available",
                    name,
                    needed / GB,
                    switch (pass) {
                        case FORWARD, FORWARD_GRAPH -> "parameters";
                        case FORWARD_BACKWARD -> "parameters and gradients";
                        case STEP -> "parameters, gradients and optimizer state";
                    },
                    device,
                    availableBytes / GB));
        }
    }
}
