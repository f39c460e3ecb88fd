package cs336.basics;

import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** The {@link Fuser} {@code none}, which calls a function as it is. */
public final class NoFuser implements Fuser {
    @Override
    public String name() {
        return NONE;
    }

    @Override
    public FusedFunction of(Function<Tensor[], Tensor> function) {
        return new FusedFunction() {
            @Override
            public Tensor apply(Tensor... inputs) {
                return function.apply(inputs);
            }

            @Override
            public void close() {
                // nothing was prepared
            }
        };
    }
}
