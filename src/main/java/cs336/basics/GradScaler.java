package cs336.basics;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Dynamic loss scaling for training in fp16, like {@code torch.amp.GradScaler}. The smallest positive fp16 number is
 * 6·10⁻⁸; smaller gradients underflow to 0. Therefore the loss is multiplied by a scale before the backward pass, and
 * the gradients are divided by it afterwards. If a gradient overflows to inf or NaN, the step is skipped and the scale
 * shrinks; after many steps without an overflow it grows.
 *
 * <pre>{@code
 * try (var autocast = Autocast.of(device, DType.FLOAT16)) {
 *     loss = Losses.crossEntropy(model.forward(inputs), targets);
 * }
 * scaler.scale(loss).backward();
 * scaler.unscale(optimizer);                                          // only needed before clipping
 * GradientClipping.clipByGlobalNorm(model.parameters(), 1.0);
 * scaler.step(optimizer);
 * scaler.update();
 * }</pre>
 *
 * <p>With an optimizer that shards its state over ranks, all ranks agree whether a gradient overflowed.
 *
 * <p>One operator per dtype divides and checks all gradients. {@link #step} synchronizes with the device once, to read
 * whether a gradient overflowed. The scale and the number of steps since its last change stay on the device, so
 * {@link #update} does not synchronize.
 *
 * <p>Source: Micikevicius et al., "Mixed Precision Training", 2018.
 */
public final class GradScaler implements AutoCloseable {
    private static final AtenOperator CHECK_AND_UNSCALE =
            AtenOperator.of("aten::_amp_foreach_non_finite_check_and_unscale_", "");
    private static final AtenOperator UPDATE_SCALE = AtenOperator.of("aten::_amp_update_scale_", "");

    private static final String SAVED = "scaler.";
    private static final String SCALE = SAVED + "scale";
    private static final String GROWTH_TRACKER = SAVED + "growth_tracker";

    private final GradScalerSettings settings;
    private final Tensor scale; // fp32 []; null if disabled
    private final Tensor growthTracker; // int32 []: steps without overflow since the scale last changed
    private final Map<Optimizer, GradientCheck> checks = new IdentityHashMap<>();

    /** The overflow check of one optimizer's gradients since the last update. */
    private static final class GradientCheck {
        final Tensor foundInf; // fp32 []: 1 if a gradient is inf or NaN
        boolean stepped;

        GradientCheck(Tensor foundInf) {
            this.foundInf = foundInf;
        }
    }

    /** Creates a scaler for gradients on this device, with PyTorch's defaults. */
    public GradScaler(Device device) {
        this(device, GradScalerSettings.DEFAULT);
    }

    /** Creates a scaler for gradients on this device. */
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
     * Returns a scaler that does not change losses and gradients and always steps, so that all precisions share one
     * code path.
     */
    public static GradScaler disabled() {
        return new GradScaler();
    }

    private boolean enabled() {
        if (scale != null && scale.isNull()) {
            throw new IllegalStateException("this scaler is closed");
        }
        return scale != null;
    }

    /** Returns the current scale, 1 if disabled. Synchronizes with the device. */
    public double scale() {
        return enabled() ? scale.item_float() : 1;
    }

    /**
     * Returns the loss times the scale, in the caller's memory scope. Start the backward pass from it.
     *
     * @throws IllegalArgumentException if the loss is not floating-point
     */
    public Tensor scale(Tensor loss) {
        Tensors.requireFloating("loss", loss);
        return enabled() ? loss.mul(scale) : loss;
    }

    /**
     * Divides the optimizer's gradients by the scale, in place, and records whether one of them is inf or NaN.
     * {@link #step} calls it if necessary; call it before reading or clipping gradients.
     *
     * @throws IllegalStateException if it was already called since the last {@link #update}, or no parameter has a
     *     gradient
     * @throws IllegalArgumentException if a gradient is fp16: unscaled small gradients would underflow
     */
    public void unscale(Optimizer optimizer) {
        if (!enabled()) {
            return;
        }
        if (checks.containsKey(optimizer)) {
            throw new IllegalStateException(
                    "the gradients of this optimizer are already unscaled; call update() first");
        }
        checks.put(optimizer, check(optimizer));
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
                throw new IllegalArgumentException(
                        "the gradient of " + name + " is fp16; loss scaling needs fp32 parameters and autocast");
            }
            byType.computeIfAbsent(dtype, d -> new ArrayList<>()).add(gradient);
        });
        if (byType.isEmpty()) {
            throw new IllegalStateException("no parameter of this optimizer has a gradient");
        }
        return byType;
    }

    private GradientCheck check(Optimizer optimizer) {
        Map<DType, List<Tensor>> gradients = gradients(optimizer);
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
            optimizer.agreeOnOverflow(foundInf);
            return new GradientCheck(MemoryScope.keep(foundInf));
        }
    }

    /**
     * Unscales the optimizer's gradients if necessary, and steps if all of them are finite. Otherwise parameters and
     * optimizer state do not change.
     *
     * @return whether the optimizer stepped
     * @throws IllegalArgumentException if a gradient is fp16, as in {@link #unscale}
     * @throws IllegalStateException if it was already called since the last {@link #update}, or no parameter has a
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
            throw new IllegalStateException("step() was already called for this optimizer; call update() first");
        }
        check.stepped = true;
        boolean finite = check.foundInf.item_float() == 0; // synchronizes with the device
        if (finite) {
            optimizer.step();
        }
        return finite;
    }

    /**
     * Shrinks the scale if a gradient overflowed since the last update; grows it after
     * {@link GradScalerSettings#growthInterval} consecutive steps without an overflow.
     *
     * @throws IllegalStateException if neither {@link #unscale} nor {@link #step} was called since then
     */
    public void update() {
        if (!enabled()) {
            return;
        }
        if (checks.isEmpty()) {
            throw new IllegalStateException("call step() or unscale() before update()");
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
        closeChecks();
    }

    /**
     * Returns the scale as {@code scaler.scale} and the number of steps since its last change as
     * {@code scaler.growth_tracker}; empty if disabled. These are the tensors in use: add them to the parameters of a
     * {@link Checkpoint} to save them and to load them in place.
     */
    public Map<String, Tensor> state() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        if (enabled()) {
            tensors.put(SCALE, scale);
            tensors.put(GROWTH_TRACKER, growthTracker);
        }
        return tensors;
    }

    /** Returns whether a checkpoint with these entries contains the {@link #state} of an enabled scaler. */
    public static boolean isSavedIn(Set<String> names) {
        return names.stream().anyMatch(name -> name.startsWith(SAVED));
    }

    /**
     * Copies a state that {@link #state} returned.
     *
     * @throws IllegalArgumentException if names, shapes or dtypes differ from those of {@link #state}, or
     *     {@link #requireValid} would refuse a value; then nothing changes
     */
    public void loadState(Map<String, Tensor> saved) {
        Map<String, Tensor> own = state();
        if (!saved.keySet().equals(own.keySet())) {
            throw new IllegalArgumentException(
                    "the state must have the entries " + own.keySet() + ", not " + saved.keySet());
        }
        own.forEach((name, tensor) -> {
            if (DType.of(saved.get(name)) != DType.of(tensor) || saved.get(name).dim() != 0) {
                throw new IllegalArgumentException(name + " must be a 0-dimensional " + DType.of(tensor));
            }
        });
        requireValid(saved);
        own.forEach((name, tensor) -> tensor.copy_(saved.get(name)));
    }

    /**
     * Checks the values of the state, which may come from a checkpoint. Synchronizes with the device.
     *
     * @throws IllegalArgumentException if the scale is not finite and above 0, or the number of steps since its last
     *     change is not from 0 to {@link GradScalerSettings#growthInterval} − 1
     */
    public void requireValid() {
        requireValid(state());
    }

    private void requireValid(Map<String, Tensor> state) {
        if (!enabled()) {
            return;
        }
        float value = state.get(SCALE).item_float();
        if (!(value > 0 && Float.isFinite(value))) {
            throw new IllegalArgumentException(SCALE + " must be finite and above 0, not " + value);
        }
        int steps = state.get(GROWTH_TRACKER).item_int();
        if (steps < 0 || steps >= settings.growthInterval()) {
            throw new IllegalArgumentException(
                    GROWTH_TRACKER + " must be from 0 to " + (settings.growthInterval() - 1) + ", not " + steps);
        }
    }

    private void closeChecks() {
        checks.values().forEach(check -> check.foundInf.close());
        checks.clear();
    }

    /** Frees the tensors of {@link #state}, but not optimizers and parameters. */
    @Override
    public void close() {
        closeChecks();
        if (scale != null) {
            scale.close();
            growthTracker.close();
        }
    }
}
