package cs336.basics;

import cs336.safetensors.Safetensors;
import cs336.safetensors.SafetensorsEntry;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/**
 * Checkpoints: parameters and optimizer state in one {@linkplain Safetensors safetensors} file. Parameters keep their
 * names; names of optimizer tensors get the prefix {@code optimizer.}. For a module with buffers, pass
 * {@link NnModule#stateDict} as its parameters.
 */
public final class Checkpoint {
    private static final String OPTIMIZER = "optimizer";
    private static final String PREFIX = "optimizer.";

    private Checkpoint() {}

    /**
     * Saves parameters without optimizer state.
     *
     * @param metadata text entries of the file, such as the training step; the name {@code optimizer} is reserved
     * @throws IOException if the file cannot be written; an existing file is then unchanged
     * @throws IllegalArgumentException if {@code metadata} contains the reserved name, the name of a parameter begins
     *     with {@code optimizer.}, or a parameter is sharded
     */
    public static void save(Path file, Map<String, Tensor> parameters, Map<String, String> metadata)
            throws IOException {
        Objects.requireNonNull(parameters, "parameters must not be null");
        Objects.requireNonNull(metadata, "metadata must not be null");
        requireSavable(parameters, metadata);
        Safetensors.write(file, parameters, metadata);
    }

    /**
     * Saves parameters and an optimizer's state.
     *
     * @param metadata text entries of the file; the name {@code optimizer} is reserved
     * @throws IOException if the file cannot be written; an existing file is then unchanged
     * @throws IllegalArgumentException if {@code metadata} contains the reserved name, the name of a parameter begins
     *     with {@code optimizer.}, or a parameter is sharded
     */
    public static void save(
            Path file, Map<String, Tensor> parameters, Optimizer optimizer, Map<String, String> metadata)
            throws IOException {
        try (var scope = MemoryScope.open()) {
            save(file, parameters, optimizer.kind(), optimizer.state(), metadata);
        }
    }

    /**
     * Saves parameters and optimizer state, which may have been collected from several shards.
     *
     * @param kind the optimizer that the state belongs to, see {@link Optimizer#kind}
     * @param state the optimizer's tensors by name, see {@link Optimizer#state}
     * @param metadata text entries of the file; the name {@code optimizer} is reserved
     * @throws IOException if the file cannot be written; an existing file is then unchanged
     * @throws IllegalArgumentException if {@code metadata} contains the reserved name, the name of a parameter begins
     *     with {@code optimizer.}, or a parameter is sharded
     */
    public static void save(
            Path file,
            Map<String, Tensor> parameters,
            String kind,
            Map<String, Tensor> state,
            Map<String, String> metadata)
            throws IOException {
        Objects.requireNonNull(metadata, "metadata must not be null");
        Objects.requireNonNull(parameters, "parameters must not be null");
        Map<String, String> texts = new LinkedHashMap<>(metadata);
        requireSavable(parameters, metadata);
        texts.put(OPTIMIZER, kind);
        Map<String, Tensor> tensors = new LinkedHashMap<>(parameters);
        state.forEach((name, tensor) -> tensors.put(PREFIX + name, tensor));
        Safetensors.write(file, tensors, texts);
    }

    private static void requireSavable(Map<String, Tensor> parameters, Map<String, String> metadata) {
        for (String name : parameters.keySet()) {
            Tensors.requireDefined("parameter " + name, parameters.get(name));
            ShardedParameters.requireUnsharded("parameter " + name, parameters.get(name));
            if (name.startsWith(PREFIX)) {
                throw new IllegalArgumentException(
                        "parameter " + name + " must not begin with '" + PREFIX + "', as the optimizer's state does");
            }
        }
        if (metadata.containsKey(OPTIMIZER)) {
            throw new IllegalArgumentException("metadata must not contain the reserved name '" + OPTIMIZER + "'");
        }
    }

    /**
     * Loads parameters in place and ignores optimizer state in the file.
     *
     * @return the text entries of the file
     * @throws IOException if the file cannot be read, is not a safetensors file, or differs from its checksum
     * @throws IllegalArgumentException if names, shapes or dtypes in the file differ from those of the parameters; then
     *     nothing changes
     */
    public static Map<String, String> load(Path file, Map<String, Tensor> parameters) throws IOException {
        return load(file, parameters, null);
    }

    /**
     * Loads parameters and optimizer state in place.
     *
     * @return the text entries of the file
     * @throws IOException if the file cannot be read, is not a safetensors file, or differs from its checksum
     * @throws IllegalArgumentException if names, shapes or dtypes in the file differ from those of the parameters, or
     *     the file has no state of this kind of optimizer; then the parameters do not change
     */
    public static Map<String, String> load(Path file, Map<String, Tensor> parameters, Optimizer optimizer)
            throws IOException {
        try (Safetensors saved = Safetensors.open(file);
                var noGrad = NoGrad.open()) {
            if (saved.hasChecksum()) {
                saved.requireIntact();
            }
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
            throw new IllegalArgumentException(file + " has the state of "
                    + (found == null ? "no optimizer" : "the optimizer " + found) + "; expected " + optimizer.kind());
        }
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> state = new LinkedHashMap<>();
            for (String name : saved.entries().keySet()) {
                if (name.startsWith(PREFIX)) {
                    state.put(name.substring(PREFIX.length()), saved.tensor(name, Device.cpu()));
                }
            }
            optimizer.loadState(state);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(file + ": " + e.getMessage(), e);
        }
    }

    private static void requireSame(Path file, Safetensors saved, Map<String, Tensor> parameters) {
        Map<String, SafetensorsEntry> entries = saved.entries();
        parameters.forEach((name, parameter) -> {
            Tensors.requireDefined("parameter " + name, parameter);
            SafetensorsEntry entry = entries.remove(name);
            if (entry == null) {
                throw new IllegalArgumentException(file + " has no parameter " + name);
            }
            List<Long> shape = Arrays.stream(Tensors.shape(parameter)).boxed().toList();
            if (!entry.shape().equals(shape) || entry.dtype() != DType.of(parameter)) {
                throw new IllegalArgumentException(file + " has " + name + " as " + entry.dtypeLabel() + entry.shape()
                        + "; expected " + DType.of(parameter) + shape);
            }
        });
        for (String name : entries.keySet()) {
            if (!name.startsWith(PREFIX)) {
                throw new IllegalArgumentException(file + " has the unexpected parameter " + name);
            }
        }
    }
}
