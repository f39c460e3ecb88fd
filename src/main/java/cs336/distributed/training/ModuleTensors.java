package cs336.distributed.training;

import cs336.basics.NnModule;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The parameters and buffers of a module that several ranks train. */
final class ModuleTensors {
    private ModuleTensors() {}

    /** Returns the parameters and buffers of a module by name. */
    static Map<String, Tensor> of(NnModule module) {
        Map<String, Tensor> all = new LinkedHashMap<>(module.namedParameters());
        module.namedBuffers().forEach((name, buffer) -> {
            if (all.put(name, buffer) != null) {
                throw new IllegalArgumentException("a parameter and a buffer have the name " + name);
            }
        });
        return all;
    }

    /** Returns the buffers of a module that checkpoints contain, by name. */
    static Map<String, Tensor> persistentBuffers(NnModule module) {
        Map<String, Tensor> buffers = new LinkedHashMap<>(module.stateDict());
        buffers.keySet().removeAll(module.namedParameters().keySet());
        return buffers;
    }

    /** Copies contiguous tensors of rank 0 to all ranks. All ranks call it. */
    static void broadcast(ProcessGroup group, Map<String, Tensor> tensors) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<PendingCollective> broadcasts = new ArrayList<>();
            tensors.forEach((name, tensor) -> {
                Tensor plain = tensor.detach();
                broadcasts.add(group.broadcastAsync(plain.is_complex() ? torch.view_as_real(plain) : plain, 0));
            });
            broadcasts.forEach(PendingCollective::await);
        }
    }
}
