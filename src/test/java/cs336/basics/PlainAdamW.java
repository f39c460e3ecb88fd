package cs336.basics;

import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** AdamW in plain tensor operations, one parameter at a time: the reference for {@link AdamW}. */
final class PlainAdamW {
    private static final class Moments {
        private long step;
        private Tensor m;
        private Tensor v;
    }

    private final Map<String, Tensor> parameters;
    private final Map<String, Moments> moments = new HashMap<>();
    private AdamWSettings settings;

    PlainAdamW(Map<String, Tensor> parameters, AdamWSettings settings) {
        this.parameters = parameters;
        this.settings = settings;
    }

    void setLearningRate(double learningRate) {
        settings = settings.withLearningRate(learningRate);
    }

    Tensor m(String name) {
        return moments.get(name).m;
    }

    Tensor v(String name) {
        return moments.get(name).v;
    }

    void step() {
        try (var noGrad = NoGrad.open()) {
            parameters.forEach((name, parameter) -> {
                try (var scope = MemoryScope.open()) {
                    if (parameter.grad().defined() && parameter.requires_grad()) {
                        step(parameter, parameter.grad(), moments.computeIfAbsent(name, n -> zeros(parameter)));
                    }
                }
            });
        }
    }

    private static Moments zeros(Tensor parameter) {
        var zeros = new Moments();
        zeros.m = MemoryScope.keep(torch.zeros_like(parameter));
        zeros.v = MemoryScope.keep(torch.zeros_like(parameter));
        return zeros;
    }

    private void step(Tensor theta, Tensor g, Moments state) {
        long t = ++state.step;
        Tensor m = state.m;
        Tensor v = state.v;
        double lr = settings.learningRate();
        double decay = lr * settings.weightDecay();
        double correction1 = 1 - Math.pow(settings.beta1(), t);
        double correction2 = 1 - Math.pow(settings.beta2(), t);
        var eps = new Scalar(settings.eps());

        m.mul_(new Scalar(settings.beta1())).add_(g, new Scalar(1 - settings.beta1()));
        v.mul_(new Scalar(settings.beta2())).addcmul_(g, g, new Scalar(1 - settings.beta2()));
        if (settings.order() != AdamW.Order.DECAY_AFTER) {
            theta.sub_(theta.mul(new Scalar(decay)));
        }
        if (settings.order() == AdamW.Order.TORCH) {
            Tensor mHat = m.div(new Scalar(correction1));
            Tensor vHat = v.div(new Scalar(correction2));
            theta.sub_(mHat.div(vHat.sqrt().add(eps)).mul(new Scalar(lr)));
        } else {
            double lrT = lr * Math.sqrt(correction2) / correction1;
            theta.sub_(m.div(v.sqrt().add(eps)).mul(new Scalar(lrT)));
        }
        if (settings.order() == AdamW.Order.DECAY_AFTER) {
            theta.sub_(theta.mul(new Scalar(decay)));
        }
    }
}
