package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import java.util.ServiceLoader;

/**
 * A kind of normalisation over the last dimension, found by name, so that a model can be built with any. Other packages
 * add theirs as services ({@link ServiceLoader}).
 */
public interface Normalization {
    /** Added to the mean square or variance before the root. */
    double EPS = 1e-5;

    /** The name in configurations and on the command line. */
    String name();

    /** Learned numbers for each feature: 1 for a gain, 2 for a gain and a bias. */
    int parametersPerFeature();

    /** A layer […, width] → […, width] of this kind. */
    NnModule create(int width, Device device, DType dtype);

    /**
     * Finds a kind by name.
     *
     * @throws IllegalArgumentException if there is none of that name; the message lists those there are
     */
    static Normalization named(String name) {
        return Named.find("normalization", name, Normalization.class, Normalization::name);
    }
}
