package cs336.precision;

import cs336.basics.LayerNorm;
import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The course's small model to look at autocast with: fc2(ln(relu(fc1(x)))), […, in] → […, out], 10 features inside. */
public final class AutocastToyModel extends NnModule {
    private static final int HIDDEN = 10;

    private final Linear fc1;
    private final LayerNorm ln;
    private final Linear fc2;

    /** A model with fresh fp32 parameters. */
    public AutocastToyModel(int in, int out, Device device) {
        fc1 = child("fc1", new Linear(in, HIDDEN, device, DType.FLOAT32));
        ln = child("ln", new LayerNorm(HIDDEN, device, DType.FLOAT32));
        fc2 = child("fc2", new Linear(HIDDEN, out, device, DType.FLOAT32));
    }

    @Override
    protected Tensor compute(Tensor x) {
        return fc2.forward(ln.forward(torch.relu(fc1.forward(x))));
    }

    /**
     * Runs a forward and a backward pass under autocast and looks at the types that come out.
     *
     * @param autocast the type that autocast narrows to
     * @return by the names {@code parameters}, {@code fc1}, {@code relu}, {@code ln}, {@code logits}, {@code loss}
     *     (PyTorch's cross entropy of the logits), {@code gradients} (of the parameters), {@code fc1-gradient} (of
     *     fc1's output)
     */
    public static Map<String, DType> dtypes(Device device, DType autocast) {
        int samples = 4;
        int in = 8;
        int classes = 6;
        try (var scope = MemoryScope.open();
                var model = new AutocastToyModel(in, classes, device)) {
            Tensor x = torch.randn(new long[] {samples, in}, device.options(DType.FLOAT32));
            Tensor targets = torch.zeros(new long[] {samples}, device.options(DType.INT64));
            Map<String, DType> seen = new LinkedHashMap<>();
            Tensor hidden;
            Tensor loss;
            try (var narrow = Autocast.of(device, autocast)) {
                seen.put("parameters", common(model.parameters()));
                hidden = model.fc1.forward(x);
                hidden.retain_grad();
                seen.put("fc1", DType.of(hidden));
                Tensor rectified = torch.relu(hidden);
                seen.put("relu", DType.of(rectified));
                Tensor normalised = model.ln.forward(rectified);
                seen.put("ln", DType.of(normalised));
                Tensor logits = model.fc2.forward(normalised);
                seen.put("logits", DType.of(logits));
                loss = torch.cross_entropy(logits, targets);
                seen.put("loss", DType.of(loss));
            }
            loss.backward();
            seen.put(
                    "gradients",
                    common(model.parameters().stream().map(Tensor::grad).toList()));
            seen.put("fc1-gradient", DType.of(hidden.grad()));
            return seen;
        }
    }

    private static DType common(Iterable<Tensor> tensors) {
        Set<DType> types = new LinkedHashSet<>();
        tensors.forEach(tensor -> types.add(DType.of(tensor)));
        if (types.size() != 1) {
            throw new IllegalStateException("tensors are of several types: " + types);
        }
        return types.iterator().next();
    }
}
