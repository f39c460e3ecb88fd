package cs336.distributed.training;

import cs336.basics.NnModule;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/** The parameters that a module had when its container was created. */
final class KnownParameters {
    private final NnModule module;
    private final Set<Tensor> parameters = Collections.newSetFromMap(new IdentityHashMap<>());
    private long changes; // of all modules, at the last check

    KnownParameters(NnModule module) {
        this.module = module;
        parameters.addAll(module.parameters());
        changes = NnModule.changes();
    }

    /**
     * Checks that the layers of the module are open and have no other parameters, of which ranks would train different
     * values.
     *
     * @throws IllegalStateException if a layer is closed or has another parameter
     */
    void requireNoOthers() {
        long now = NnModule.changes();
        if (now == changes) {
            return;
        }
        module.layers().forEach(NnModule::requireOpen);
        if (!parameters.containsAll(module.parameters())) {
            throw new IllegalStateException(
                    "the module has parameters that it did not have when its container was created;"
                            + " adapt and replace layers before");
        }
        changes = now;
    }
}
