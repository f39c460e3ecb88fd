package cs336.compile;

import cs336.basics.NnModule;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Numbers the states of a module on which a recording depends: its layers, and which of them are in training mode. */
final class ModuleState {
    private record Layers(List<NnModule> all, List<Boolean> training) {}

    private final NnModule module;
    private final Map<Layers, Integer> numbers = new HashMap<>();
    private long changes = -1; // of all modules, when the number was computed
    private int number;

    /** @param module null for a function without a module, which always has the same number */
    ModuleState(NnModule module) {
        this.module = module;
    }

    /** Returns the number of the present state. Equal states have equal numbers. */
    int number() {
        long now = NnModule.changes();
        if (module != null && now != changes) { // visiting all layers would take as long as launching several kernels
            changes = now;
            List<NnModule> layers = module.layers();
            var state =
                    new Layers(layers, layers.stream().map(NnModule::isTraining).toList());
            number = numbers.computeIfAbsent(state, s -> numbers.size());
        }
        return number;
    }
}
