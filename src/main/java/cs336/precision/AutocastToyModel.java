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

/** The handout's toy model for autocast: fc2(ln(relu(fc1(x)))), [*, in] → [*, out], with a hidden size of 10. */
public final class AutocastToyModel extends NnModule {
    private static final int HIDDEN = 10;

    private final Linear fc1;
    private final LayerNorm ln;
    private final Linear fc2;

    /** Creates a model with newly initialized fp32 parameters. */
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
     * Runs a forward pass under autocast and a backward pass, and returns the dtypes of the tensors.
     *
     * @param autocast the autocast dtype
     * @return the dtypes of {@code parameters}, of the outputs of {@code fc1}, {@code relu} and {@code ln}, of
     *     {@code logits} and {@code loss} (cross-entropy), of {@code gradients} (of the parameters) and of
     *     {@code fc1-gradient} (of fc1's output)
     */
    public static Map<String, DType> dtypes(Device device, DType autocast) {
        int samples = 4;
        int in = 8;
        int classes = 6;
        try (var scope = MemoryScope.open();
                var model = new AutocastToyModel(in, classes, device)) {
            Tensor x = torch.randn(new long[] {samples, in}, device.options(DType.FLOAT32));
            Tensor targets = torch.zeros(new long[] {samples}, device.options(DType.INT64));
            Map<String, DType> dtypes = new LinkedHashMap<>();
            Tensor hidden;
            Tensor loss;
            try (var narrow = Autocast.of(device, autocast)) {
                dtypes.put("parameters", common(model.parameters()));
                hidden = model.fc1.forward(x);
                hidden.retain_grad();
                dtypes.put("fc1", DType.of(hidden));
                Tensor rectified = torch.relu(hidden);
                dtypes.put("relu", DType.of(rectified));
                Tensor normalized = model.ln.forward(rectified);
                dtypes.put("ln", DType.of(normalized));
                Tensor logits = model.fc2.forward(normalized);
                dtypes.put("logits", DType.of(logits));
                loss = torch.cross_entropy(logits, targets);
                dtypes.put("loss", DType.of(loss));
            }
            loss.backward();
            dtypes.put(
                    "gradients",
                    common(model.parameters().stream().map(Tensor::grad).toList()));
            dtypes.put("fc1-gradient", DType.of(hidden.grad()));
            return dtypes;
        }
    }

    private static DType common(Iterable<Tensor> tensors) {
        Set<DType> types = new LinkedHashSet<>();
        tensors.forEach(tensor -> types.add(DType.of(tensor)));
        if (types.size() != 1) {
            throw new IllegalStateException("tensors must have one dtype, but have " + types);
        }
        return types.iterator().next();
    }
}
