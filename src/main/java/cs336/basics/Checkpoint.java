package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Safetensors;
import cs336.torch.SafetensorsEntry;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * Parameters, and what an optimizer remembers of them, in one {@linkplain Safetensors safetensors} file. Parameters
 * have their own names there; the optimizer's tensors have {@code optimizer.} before theirs.
 */
public final class Checkpoint {
    private static final String OPTIMIZER = "optimizer";
    private static final String PREFIX = "optimizer.";

    private Checkpoint() {}

    /**
     * Saves parameters alone.
     *
     * @param metadata texts to keep with them, such as the training step
     * @throws IOException if the file cannot be written; then what was there before still is
     */
    public static void save(Path file, Map<String, Tensor> parameters, Map<String, String> metadata)
            throws IOException {
        Safetensors.write(file, parameters, metadata);
    }

    /**
     * Saves parameters and an optimizer's state.
     *
     * @param metadata texts to keep with them; {@code optimizer} is taken
     * @throws IOException if the file cannot be written; then what was there before still is
     */
    public static void save(
            Path file, Map<String, Tensor> parameters, Optimizer optimizer, Map<String, String> metadata)
            throws IOException {
        try (var scope = MemoryScope.open()) {
            save(file, parameters, optimizer.kind(), optimizer.state(), metadata);
        }
    }

    /**
     * Saves parameters and the state that an optimizer had, or several that had a part of it each.
     *
     * @param kind whose state it is, see {@link Optimizer#kind}
     * @param metadata texts to keep with them; {@code optimizer} is taken
     * @throws IOException if the file cannot be written; then what was there before still is
     */
    public static void save(
            Path file,
            Map<String, Tensor> parameters,
            String kind,
            Map<String, Tensor> state,
            Map<String, String> metadata)
            throws IOException {
        Map<String, String> texts = new LinkedHashMap<>(metadata);
        if (texts.put(OPTIMIZER, kind) != null) {
            throw new IllegalArgumentException("metadata cannot have the name '" + OPTIMIZER + "'");
        }
        Map<String, Tensor> tensors = new LinkedHashMap<>(parameters);
        state.forEach((name, tensor) -> tensors.put(PREFIX + name, tensor));
        Safetensors.write(file, tensors, texts);
    }

    /**
     * Loads parameters, in place. An optimizer's state in the file is passed over.
     *
     * @return the metadata
     * @throws IOException if the file cannot be read or is no safetensors file
     * @throws IllegalArgumentException if the file's names, shapes or dtypes are not those of the parameters; then
     *     nothing changes
     */
    public static Map<String, String> load(Path file, Map<String, Tensor> parameters) throws IOException {
        return load(file, parameters, null);
    }

    /**
     * Loads parameters and an optimizer's state, in place.
     *
     * @return the metadata
     * @throws IOException if the file cannot be read or is no safetensors file
     * @throws IllegalArgumentException if the file's names, shapes or dtypes are not those of the parameters, or it has
     *     no state of such an optimizer; then the parameters have not changed
     */
    public static Map<String, String> load(Path file, Map<String, Tensor> parameters, Optimizer optimizer)
            throws IOException {
        try (Safetensors saved = Safetensors.open(file);
                var noGrad = NoGrad.open()) {
            requireSame(file, saved, parameters);
            if (optimizer != null) {
                loadState(file, saved, optimizer);
            }
            for (var parameter : parameters.entrySet()) {
                try (var scope = MemoryScope.open()) {
                    parameter.getValue().copy_(saved.tensor(parameter.getKey(), Device.cpu()));
                }
            }
            Map<String, String> metadata = new LinkedHashMap<>(saved.metadata());
            metadata.remove(OPTIMIZER);
            return metadata;
        }
    }

    private static void loadState(Path file, Safetensors saved, Optimizer optimizer) throws IOException {
        String found = saved.metadata().get(OPTIMIZER);
        if (!optimizer.kind().equals(found)) {
            throw new IllegalArgumentException(
                    file + " has the state of " + (found == null ? "no optimizer" : "the optimizer " + found)
                            + "; asked for was " + optimizer.kind());
        }
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> state = new LinkedHashMap<>();
            for (String name : saved.entries().keySet()) {
                if (name.startsWith(PREFIX)) {
                    state.put(name.substring(PREFIX.length()), saved.tensor(name, Device.cpu()));
                }
            }
            optimizer.loadState(state);
        }
    }

    private static void requireSame(Path file, Safetensors saved, Map<String, Tensor> parameters) {
        Map<String, SafetensorsEntry> entries = saved.entries();
        parameters.forEach((name, parameter) -> {
            SafetensorsEntry entry = entries.remove(name);
            if (entry == null) {
                throw new IllegalArgumentException(file + " has no parameter " + name);
            }
            List<Long> shape = Arrays.stream(Tensors.shape(parameter)).boxed().toList();
            if (!entry.shape().equals(shape) || entry.dtype() != DType.of(parameter)) {
                throw new IllegalArgumentException(file + " has " + name + " as " + entry.dtype() + entry.shape()
                        + "; here it is " + DType.of(parameter) + shape);
            }
        });
        for (String name : entries.keySet()) {
            if (!name.startsWith(PREFIX)) {
                throw new IllegalArgumentException(
                        file + " has a parameter " + name + ", which is not among those here");
            }
        }
    }
}
