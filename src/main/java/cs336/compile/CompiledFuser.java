package cs336.compile;

import cs336.basics.Fuser;
import cs336.basics.Linear;
import cs336.torch.OperatorInterceptor;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * The {@link Fuser} {@code compiled}: each function is {@link Compiled}, which fuses its forward and backward pass, and
 * linear layers with the same input run {@linkplain Linear#jointly jointly}.
 */
public final class CompiledFuser implements Fuser {
    @Override
    public String name() {
        return "compiled";
    }

    @Override
    public FusedFunction of(Function<Tensor[], Tensor> function) {
        Compiled compiled = Compiled.of(inputs -> new Tensor[] {function.apply(inputs)});
        return new FusedFunction() {
            @Override
            public Tensor apply(Tensor... inputs) {
                return compiled.apply(inputs)[0];
            }

            @Override
            public void close() {
                compiled.close();
            }
        };
    }

    /**
     * While a step is recorded, the layers run separately: the compiled step fuses the additions with its own rules.
     */
    @Override
    public Tensor[] linear(Tensor x, Linear... layers) {
        return OperatorInterceptor.isActive() ? Fuser.super.linear(x, layers) : Linear.jointly(x, layers);
    }

    @Override
    public Tensor[] unreadLinear(Tensor x, Linear... layers) {
        return OperatorInterceptor.isActive() ? Fuser.super.unreadLinear(x, layers) : Linear.jointlyUnread(x, layers);
    }
}
