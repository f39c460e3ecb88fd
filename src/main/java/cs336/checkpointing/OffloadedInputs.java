package cs336.checkpointing;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.SideStream;
import cs336.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.cuda.CUDAEvent;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * The inputs of one application of a checkpointed function, in the memory of the host. The autograd graph owns their
 * copies. The inputs are on the device while they are being copied, then only on the host ({@link #release}), being
 * copied back ({@link #prefetch}), and taken ({@link #take}). A backward pass may omit the steps in between. On the CPU
 * the inputs are their own copies.
 */
final class OffloadedInputs {
    private static final SideStream COPIES = new SideStream();

    private final Device device;
    private final boolean[] requiresGrad;
    private final long[] versions;
    private Tensor[] originals; // on the device; null after their release
    private Tensor[] onHost; // null when the graph alone owns them
    private Tensor[] fetched; // from the host; null before and after
    private CUDAEvent copiesDone; // null if the current stream need not wait

    /**
     * Starts to copy tensors to the host, behind the work of the current stream.
     *
     * @throws IllegalArgumentException if the tensors are on several devices
     */
    OffloadedInputs(Tensor... inputs) {
        device = deviceOf(inputs);
        requiresGrad = new boolean[inputs.length];
        versions = new long[inputs.length];
        originals = new Tensor[inputs.length];
        onHost = new Tensor[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            requiresGrad[i] = inputs[i].requires_grad();
            versions[i] = inputs[i]._version();
            originals[i] = MemoryScope.keep(inputs[i].detach());
            onHost[i] = device.isCuda() ? pageLocked(inputs[i]) : MemoryScope.keep(inputs[i].detach());
        }
        if (device.isCuda()) {
            copy(originals, onHost);
        }
    }

    private static Device deviceOf(Tensor... inputs) {
        for (Tensor input : inputs) {
            if (!input.device().equals(inputs[0].device())) {
                throw new IllegalArgumentException("inputs that a HostStore keeps must be on one device");
            }
        }
        return inputs.length == 0 ? Device.cpu() : Device.of(inputs[0]);
    }

    /** Returns the number of inputs. */
    int size() {
        return requiresGrad.length;
    }

    /** Returns the copies, before {@link #handOver}. */
    Tensor[] onHost() {
        return onHost;
    }

    /** Leaves the copies to the graph, which frees them after the backward pass or when it is freed itself. */
    void handOver() {
        if (onHost != null) {
            close(onHost);
            onHost = null;
        }
    }

    /**
     * Makes the current stream wait for the copies to the host, and frees the memory of the device.
     *
     * @throws IllegalStateException if an input was changed in place
     */
    void release() {
        if (originals != null) {
            requireUnchanged();
            waitForCopies();
            close(originals);
            originals = null;
        }
    }

    /** Starts to copy the inputs back, into memory of the current stream, unless they are on the device. */
    void prefetch(Tensor... copies) {
        if (originals == null && fetched == null && device.isCuda()) {
            fetched = Arrays.stream(copies).map(this::deviceTensor).toArray(Tensor[]::new);
            copy(copies, fetched);
        }
    }

    /**
     * Returns the inputs on their device as leaves, in the caller's memory scope. The current stream waits for their
     * copies.
     *
     * @param copies the copies on the host, which the graph owns
     * @throws IllegalStateException if an input was changed in place while it was on the device
     */
    Tensor[] take(Tensor... copies) {
        prefetch(copies);
        if (originals != null) {
            requireUnchanged();
        }
        waitForCopies();
        Tensor[] found = originals != null ? originals : fetched != null ? fetched : copies;
        Tensor[] inputs = new Tensor[found.length];
        for (int i = 0; i < inputs.length; i++) {
            inputs[i] = found[i].detach().set_requires_grad(requiresGrad[i]);
        }
        if (found != copies) {
            close(found);
        }
        originals = null;
        fetched = null;
        return inputs;
    }

    /** Frees the inputs that were copied back and not taken, because the backward pass failed. */
    void drop() {
        if (fetched != null) {
            waitForCopies();
            close(fetched);
            fetched = null;
        }
    }

    private void requireUnchanged() {
        for (int i = 0; i < versions.length; i++) {
            if (originals[i]._version() != versions[i]) {
                throw new IllegalStateException("input " + i
                        + " of a checkpointed function was changed in place before its copy to the host had ended");
            }
        }
    }

    private void waitForCopies() {
        if (copiesDone != null) {
            try (CUDAStream current = torch_cuda.getCurrentCUDAStream((byte) device.index())) {
                copiesDone.block(current);
            }
            copiesDone.close();
            copiesDone = null;
        }
    }

    /** Copies on the copy stream, which first waits for the current stream. */
    private void copy(Tensor[] from, Tensor[] to) {
        copiesDone = MemoryScope.keep(new CUDAEvent());
        try (CUDAStream current = torch_cuda.getCurrentCUDAStream((byte) device.index())) {
            copiesDone.record(current);
        }
        CUDAStream copies = COPIES.of(device);
        copiesDone.block(copies);
        COPIES.run(device, () -> {
            for (int i = 0; i < from.length; i++) {
                to[i].copy_(from[i], true);
            }
        });
        copiesDone.record(copies);
    }

    private static Tensor pageLocked(Tensor input) {
        try (var scope = MemoryScope.open()) {
            return like(input, Device.cpu().options(DType.of(input)).pinned_memory(new BoolOptional(true)));
        }
    }

    private Tensor deviceTensor(Tensor input) {
        try (var scope = MemoryScope.open()) {
            return like(input, device.options(DType.of(input)));
        }
    }

    private static Tensor like(Tensor input, TensorOptions options) {
        return MemoryScope.keep(torch.empty(Tensors.shape(input), options, null));
    }

    private static void close(Tensor... tensors) {
        for (Tensor tensor : tensors) {
            tensor.close();
        }
    }
}
