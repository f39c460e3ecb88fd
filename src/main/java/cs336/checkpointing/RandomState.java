package cs336.checkpointing;

import cs336.torch.Device;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/** The states of PyTorch's default random generators of the CPU and of the GPUs that hold the inputs of a function. */
public record RandomState(Map<Device, byte[]> states) {
    /** Returns the current states for a function of these inputs. */
    public static RandomState of(Tensor... inputs) {
        Objects.requireNonNull(inputs, "inputs must not be null");
        var states = new LinkedHashMap<Device, byte[]>();
        states.put(Device.cpu(), Torch.randomState(Device.cpu()));
        for (Tensor input : inputs) {
            Tensors.requireDefined("input", input);
            if (input.is_cuda()) {
                states.computeIfAbsent(Device.of(input), Torch::randomState);
            }
        }
        return new RandomState(states);
    }

    /** Returns the states, or null if no random number has been drawn since. */
    public RandomState orNullIfUnused() {
        boolean isUnused = states.entrySet().stream()
                .allMatch(state -> Arrays.equals(state.getValue(), Torch.randomState(state.getKey())));
        return isUnused ? null : this;
    }

    /** Sets the generators to these states. */
    public void restore() {
        states.forEach(Torch::setRandomState);
    }
}
