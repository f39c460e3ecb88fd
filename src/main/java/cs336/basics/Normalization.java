package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.ServiceLoader;
import org.bytedeco.pytorch.Tensor;

/**
 * A factory of normalization layers over the last dimension. A model configuration selects one by name; other packages
 * register theirs as services ({@link ServiceLoader}).
 */
public interface Normalization {
    /** The default ε, which is added to the mean square or variance before the square root. */
    double EPS = 1e-5;

    /** Returns the name in configurations and on the command line. */
    String name();

    /** Returns the number of trainable parameters per feature: 1 with a weight, 2 with weight and bias. */
    default int parametersPerFeature() {
        return 1;
    }

    /** Creates a layer […, width] → […, width] that adds {@code eps} before the square root. */
    NnModule create(int width, double eps, Device device, DType dtype);

    /** Creates a layer […, width] → […, width] with the default ε. */
    default NnModule create(int width, Device device, DType dtype) {
        return create(width, EPS, device, dtype);
    }

    /**
     * Checks that an input is floating-point and that its last dimension has the width of a layer.
     *
     * @throws IllegalArgumentException if it is not, or has another width
     */
    static void requireWidth(Tensor input, long width) {
        Tensors.requireFloating("input", input);
        if (input.dim() < 1 || input.size(-1) != width) {
            throw new IllegalArgumentException(
                    "input must have " + width + " columns, not the shape " + Arrays.toString(Tensors.shape(input)));
        }
    }

    /**
     * Returns the factory of this name.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    static Normalization named(String name) {
        return Services.named("normalization", name, Normalization.class, Normalization::name);
    }
}
