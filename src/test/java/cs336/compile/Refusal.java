package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import org.bytedeco.pytorch.Tensor;

/** The message with which {@link Compiled} refuses a function. */
final class Refusal {
    private Refusal() {}

    /** Calls a function that must be refused, and returns the message. */
    static String of(TensorFunction function, Tensor... inputs) {
        try (var compiled = Compiled.of(function)) {
            return assertThrows(UnrecordableException.class, () -> compiled.apply(inputs))
                    .getMessage();
        }
    }
}
