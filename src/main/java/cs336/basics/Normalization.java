package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import java.util.ServiceLoader;

/**
 * A factory of normalization layers over the last dimension. A model configuration selects one by name; other packages
 * register theirs as services ({@link ServiceLoader}).
 */
public interface Normalization {
    /** ε, added to the mean square or variance before the square root. */
    double EPS = 1e-5;

    /** Returns the name in configurations and on the command line. */
    String name();

    /** Returns the number of trainable parameters per feature: 1 with a weight, 2 with weight and bias. */
    int parametersPerFeature();

    /** Creates a layer […, width] → […, width]. */
    NnModule create(int width, Device device, DType dtype);

    /**
     * Returns the factory of this name.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    static Normalization named(String name) {
        return Named.find("normalization", name, Normalization.class, Normalization::name);
    }
}
