package cs336.torch;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** A test whose tensors are freed after each of its methods. */
public abstract class ScopedTest {
    private MemoryScope scope;

    @BeforeEach
    final void openScope() {
        scope = MemoryScope.open();
    }

    @AfterEach
    final void closeScope() {
        scope.close();
    }
}
