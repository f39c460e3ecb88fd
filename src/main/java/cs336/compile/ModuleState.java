package cs336.compile;

import cs336.basics.NnModule;
import java.util.List;

/**
 * The properties of a module that a recording of its forward pass depends on.
 *
 * @param layers the module and its descendants
 * @param training whether each of them is in training mode
 */
record ModuleState(List<NnModule> layers, List<Boolean> training) {
    static ModuleState of(NnModule module) {
        List<NnModule> layers = module.layers();
        return new ModuleState(layers, layers.stream().map(NnModule::isTraining).toList());
    }
}
