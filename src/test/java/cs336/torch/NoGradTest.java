package cs336.torch;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** A test whose methods run without an autograd graph. */
public abstract class NoGradTest extends ScopedTest {
    private NoGrad noGrad;

    @BeforeEach
    final void openNoGrad() {
        noGrad = NoGrad.open();
    }

    @AfterEach
    final void closeNoGrad() {
        noGrad.close();
    }
}
