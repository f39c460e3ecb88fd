package cs336.compile;

import cs336.basics.NnModule;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * The state of a module on which a recording depends: its layers, which of them are in training mode, and its
 * parameters. It is read again only after a module has changed: to visit all layers takes as long as to launch several
 * kernels.
 */
final class ModuleState {
    private record Layers(List<NnModule> all, List<Boolean> training) {}

    private final NnModule module;
    private final Map<Layers, Integer> numbers = new HashMap<>();
    private long changes = -1; // of all modules, when the state was read
    private int number;
    private List<Tensor> parameters;

    ModuleState(NnModule module) {
        this.module = module;
    }

    /**
     * Returns the number of the present state. Equal states have equal numbers.
     *
     * @throws IllegalStateException if a layer is closed: a recording would still read its tensors
     */
    int number() {
        update();
        return number;
    }

    /**
     * Returns the parameters of the module.
     *
     * @throws IllegalStateException if a layer is closed
     */
    List<Tensor> parameters() {
        update();
        return parameters;
    }

    private void update() {
        long now = NnModule.changes();
        if (now == changes) {
            return;
        }
        List<NnModule> layers = module.layers();
        layers.forEach(NnModule::requireOpen);
        var state = new Layers(layers, layers.stream().map(NnModule::isTraining).toList());
        number = numbers.computeIfAbsent(state, s -> numbers.size());
        parameters = module.parameters();
        changes = now;
    }
}
