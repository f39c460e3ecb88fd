package cs336.checkpointing;

import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.Device;
import org.bytedeco.pytorch.Generator;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The states of PyTorch's default random generators of the CPU and of the GPUs that hold the inputs of a function. */
final class RandomState {
    private final List<byte[]> states;

    private RandomState(List<byte[]> states) {
        this.states = states;
    }

    /** Returns the current states for a function of these inputs. */
    static RandomState of(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            return new RandomState(
                    generators(inputs).stream().map(RandomState::state).toList());
        }
    }

    /** Returns the states, or null if no random number has been drawn since. */
    RandomState orNullIfUnused(Tensor... inputs) {
        List<byte[]> now = of(inputs).states;
        for (int i = 0; i < states.size(); i++) {
            if (!Arrays.equals(states.get(i), now.get(i))) {
                return this;
            }
        }
        return null;
    }

    /** Sets the generators to these states. */
    void restore(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            List<Generator> generators = generators(inputs);
            for (int i = 0; i < generators.size(); i++) {
                Tensor state = generators.get(i).get_state(); // a new tensor
                new BytePointer(state.data_ptr()).put(states.get(i));
                generators.get(i).set_state(state);
            }
        }
    }

    private static List<Generator> generators(Tensor... inputs) {
        var generators = new ArrayList<Generator>();
        generators.add(torch.getDefaultCPUGenerator());
        var gpus = new ArrayList<Device>();
        for (Tensor input : inputs) {
            if (input.is_cuda() && gpus.stream().noneMatch(gpu -> gpu.equals(input.device()))) {
                gpus.add(input.device());
                generators.add(torch.globalContext().defaultGenerator(input.device()));
            }
        }
        return generators;
    }

    /** Copies the state without an operator, so that a recorded program does not contain the copy. */
    private static byte[] state(Generator generator) {
        Tensor state = generator.get_state();
        byte[] bytes = new byte[Math.toIntExact(state.numel())];
        new BytePointer(state.data_ptr()).get(bytes);
        return bytes;
    }
}
