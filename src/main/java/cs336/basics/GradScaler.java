package cs336.basics;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Keeps gradients within the range of fp16, whose smallest number is 6·10⁻⁸: the loss is multiplied by a scale s before
 * the backward pass, the gradients are divided by it after. Where s was too large they are inf or NaN; then the step is
 * skipped and s shrinks. After many steps without an overflow it grows. PyTorch's {@code torch.amp.GradScaler}.
 *
 * <pre>{@code
 * try (var autocast = Autocast.of(device, DType.FLOAT16)) {
 *     loss = Losses.crossEntropy(model.forward(inputs), targets);
 * }
 * scaler.scale(loss).backward();
 * scaler.unscale(optimizer);                                          // only where gradients are clipped
 * GradientClipping.clipByGlobalNorm(model.parameters(), 1.0);
 * scaler.step(optimizer);
 * scaler.update();
 * }</pre>
 *
 * <p>All gradients are divided and checked in one operator a dtype, and {@link #step} waits for the device once, to
 * learn whether it may go on. Scale and count live on the device; {@link #update} waits for nothing.
 *
 * <p>Source: Micikevicius et al., "Mixed Precision Training", 2018.
 */
public final class GradScaler implements AutoCloseable {
    private static final AtenOperator CHECK_AND_UNSCALE =
            AtenOperator.of("aten::_amp_foreach_non_finite_check_and_unscale_", "");
    private static final AtenOperator UPDATE_SCALE = AtenOperator.of("aten::_amp_update_scale_", "");

    private final GradScalerSettings settings;
    private final Tensor scale; // fp32 []; null where disabled
    private final Tensor growthTracker; // int32 []: steps since the scale last changed
    private final Map<Optimizer, GradientCheck> checks = new IdentityHashMap<>();

    /** What is known of an optimizer's gradients between two updates. */
    private static final class GradientCheck {
        final Tensor foundInf; // fp32 []: 1 after an inf or NaN
        boolean stepped;

        GradientCheck(Tensor foundInf) {
            this.foundInf = foundInf;
        }
    }

    /** A scaler for gradients on this device, with PyTorch's defaults. */
    public GradScaler(Device device) {
        this(device, GradScalerSettings.DEFAULT);
    }

    /** A scaler for gradients on this device. */
    public GradScaler(Device device, GradScalerSettings settings) {
        this.settings = settings;
        try (var scope = MemoryScope.open()) {
            scale = MemoryScope.keep(
                    torch.full(new long[0], new Scalar(settings.initialScale()), device.options(DType.FLOAT32)));
            growthTracker = MemoryScope.keep(torch.zeros(new long[0], device.options(DType.INT32)));
        }
    }

    private GradScaler() {
        settings = GradScalerSettings.DEFAULT;
        scale = null;
        growthTracker = null;
    }

    /**
     * A scaler that leaves losses and gradients as they are and always steps, so that one code path serves all
     * precisions.
     */
    public static GradScaler disabled() {
        return new GradScaler();
    }

    private boolean enabled() {
        return scale != null;
    }

    /** What losses are multiplied by now; 1 where disabled. Waits for the device. */
    public double scale() {
        return enabled() ? scale.item_float() : 1;
    }

    /** The loss times the scale, in the caller's memory scope: what the backward pass is to start from. */
    public Tensor scale(Tensor loss) {
        if (!loss.is_floating_point()) {
            throw new IllegalArgumentException("loss must be floating-point, not " + DType.of(loss));
        }
        return enabled() ? loss.mul(scale) : loss;
    }

    /**
     * Divides the optimizer's gradients by the scale, in place, and notes whether one of them is inf or NaN.
     * {@link #step} does it where it was not done before; call it to see or clip the gradients themselves.
     *
     * @throws IllegalStateException if this was done since the last {@link #update}, or no parameter has a gradient
     * @throws IllegalArgumentException if a gradient is fp16: it has lost what the scale is to save
     */
    public void unscale(Optimizer optimizer) {
        if (!enabled()) {
            return;
        }
        if (checks.containsKey(optimizer)) {
            throw new IllegalStateException(
                    "the gradients of this optimizer are unscaled already; update() comes first");
        }
        checks.put(optimizer, check(gradients(optimizer)));
    }

    private static Map<DType, List<Tensor>> gradients(Optimizer optimizer) {
        Map<DType, List<Tensor>> byType = new EnumMap<>(DType.class);
        optimizer.parameters().forEach((name, parameter) -> {
            Tensor gradient = parameter.grad();
            if (!gradient.defined()) {
                return;
            }
            DType dtype = DType.of(gradient);
            if (dtype == DType.FLOAT16) {
                throw new IllegalArgumentException("the gradient of " + name
                        + " is fp16; parameters must be wider and be cast by autocast for a scale to be of use");
            }
            byType.computeIfAbsent(dtype, d -> new ArrayList<>()).add(gradient);
        });
        if (byType.isEmpty()) {
            throw new IllegalStateException("no parameter of this optimizer has a gradient");
        }
        return byType;
    }

    private GradientCheck check(Map<DType, List<Tensor>> gradients) {
        try (var range = ProfilerRange.of("unscale");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor foundInf = torch.zeros_like(scale);
            Tensor inverse = scale.reciprocal();
            for (List<Tensor> ofOneType : gradients.values()) {
                try (var list = TensorList.of(ofOneType)) {
                    CHECK_AND_UNSCALE.call(list, foundInf, inverse);
                }
            }
            return new GradientCheck(MemoryScope.keep(foundInf));
        }
    }

    /**
     * Unscales the optimizer's gradients if that has not happened, and steps if all of them are finite. Otherwise
     * parameters and what the optimizer remembers stay as they are.
     *
     * @return whether the optimizer stepped
     * @throws IllegalStateException if it was asked to step since the last {@link #update}, or no parameter has a
     *     gradient
     */
    public boolean step(Optimizer optimizer) {
        if (!enabled()) {
            optimizer.step();
            return true;
        }
        if (!checks.containsKey(optimizer)) {
            unscale(optimizer);
        }
        GradientCheck check = checks.get(optimizer);
        if (check.stepped) {
            throw new IllegalStateException("this optimizer has stepped already; update() comes first");
        }
        check.stepped = true;
        boolean finite = check.foundInf.item_float() == 0; // waits for the device
        if (finite) {
            optimizer.step();
        }
        return finite;
    }

    /**
     * Moves the scale by what the optimizers' gradients showed since the last update.
     *
     * @throws IllegalStateException if no optimizer was unscaled or stepped since then
     */
    public void update() {
        if (!enabled()) {
            return;
        }
        if (checks.isEmpty()) {
            throw new IllegalStateException("update() needs a step() or unscale() before it");
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor foundInf = torch.zeros_like(scale);
            for (GradientCheck check : checks.values()) {
                foundInf.add_(check.foundInf);
            }
            UPDATE_SCALE.call(scale, growthTracker, foundInf, settings.growthFactor(), settings.backoffFactor(), (long)
                    settings.growthInterval());
        }
        forgetChecks();
    }

    /**
     * The scale and the steps since it last changed, as {@code scaler.scale} and {@code scaler.growth_tracker}; empty
     * where disabled. These are the tensors in use: among the parameters of a {@link Checkpoint} they are saved, and
     * loaded in place.
     */
    public Map<String, Tensor> state() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        if (enabled()) {
            tensors.put("scaler.scale", scale);
            tensors.put("scaler.growth_tracker", growthTracker);
        }
        return tensors;
    }

    /**
     * Takes over a state that {@link #state} gave, by copying.
     *
     * @throws IllegalArgumentException if names, shapes or dtypes are not those of {@link #state}; then nothing changes
     */
    public void loadState(Map<String, Tensor> saved) {
        Map<String, Tensor> own = state();
        if (!saved.keySet().equals(own.keySet())) {
            throw new IllegalArgumentException(
                    "the state of a scaler has " + own.keySet() + "; this one has " + saved.keySet());
        }
        own.forEach((name, tensor) -> {
            if (DType.of(saved.get(name)) != DType.of(tensor) || saved.get(name).dim() != 0) {
                throw new IllegalArgumentException(name + " must be one " + DType.of(tensor) + " without dimensions");
            }
        });
        own.forEach((name, tensor) -> tensor.copy_(saved.get(name)));
    }

    private void forgetChecks() {
        checks.values().forEach(check -> check.foundInf.close());
        checks.clear();
    }

    /** Frees scale and count; optimizers and parameters stay. */
    @Override
    public void close() {
        forgetChecks();
        state().values().forEach(Tensor::close);
    }
}
