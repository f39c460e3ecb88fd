package cs336.checkpointing;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.cuda.CUDAEvent;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * The inputs of one application of a checkpointed function, in the memory of the host. In turn they are on the GPU and
 * being copied to the host; only on the host ({@link #release}); being copied back ({@link #copyBack}); and taken
 * ({@link #take}). A backward pass may omit the steps in between.
 */
final class HostInputs {
    private static final Map<Device, CUDAStream> COPY_STREAMS = new ConcurrentHashMap<>();

    private final Device device;
    private final boolean[] requiresGrad;
    private Tensor[] onHost;
    private Tensor[] onDevice; // null while they are only on the host
    private CUDAEvent copied; // the end of the latest copies; null for inputs on the CPU
    private boolean taken;

    /**
     * Starts to copy tensors to the host, behind the work of the current stream.
     *
     * @throws IllegalArgumentException if the tensors are on several devices
     */
    HostInputs(Tensor... inputs) {
        device = deviceOf(inputs);
        requiresGrad = new boolean[inputs.length];
        onDevice = new Tensor[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            requiresGrad[i] = inputs[i].requires_grad();
            onDevice[i] = MemoryScope.keep(inputs[i].detach());
        }
        if (device.isCuda()) {
            onHost = Arrays.stream(inputs).map(HostInputs::pageLocked).toArray(Tensor[]::new);
            copy(onDevice, onHost);
        } else {
            onHost = onDevice;
        }
    }

    private static Device deviceOf(Tensor... inputs) {
        for (Tensor input : inputs) {
            if (!input.device().equals(inputs[0].device())) {
                throw new IllegalArgumentException("inputs that a HostStore keeps must be on one device");
            }
        }
        boolean cuda = inputs.length > 0 && inputs[0].is_cuda();
        return cuda ? Device.cuda(inputs[0].device().index()) : Device.cpu();
    }

    /** Makes the current stream wait for the copies to the host, and frees the memory of the device. */
    void release() {
        if (onDevice != null && onDevice != onHost && !taken) {
            waitForCopies();
            close(onDevice);
            onDevice = null;
        }
    }

    /** Starts to copy the inputs back, into memory of the current stream. */
    void copyBack() {
        if (onDevice == null && !taken) {
            onDevice = Arrays.stream(onHost).map(this::deviceTensor).toArray(Tensor[]::new);
            copy(onHost, onDevice);
        }
    }

    /**
     * Returns the inputs on their device as leaves, in the caller's memory scope. The current stream waits for their
     * copies.
     *
     * @throws IllegalStateException if they were taken before
     */
    Tensor[] take() {
        if (taken) {
            throw new IllegalStateException(
                    "a second backward pass needs activations in host memory, which the first one has freed");
        }
        copyBack();
        waitForCopies();
        taken = true;
        Tensor[] inputs = new Tensor[onDevice.length];
        for (int i = 0; i < inputs.length; i++) {
            inputs[i] = new Tensor(onDevice[i]).set_requires_grad(requiresGrad[i]);
        }
        close(onDevice);
        close(onHost);
        onDevice = null;
        onHost = null;
        return inputs;
    }

    private void waitForCopies() {
        if (copied != null) {
            try (CUDAStream current = torch_cuda.getCurrentCUDAStream((byte) device.index())) {
                copied.block(current);
            }
            copied.close();
            copied = null;
        }
    }

    /** Copies on the copy stream, which first waits for the current stream. */
    private void copy(Tensor[] from, Tensor[] to) {
        CUDAStream copies = COPY_STREAMS.computeIfAbsent(
                device, gpu -> MemoryScope.keep(torch_cuda.getStreamFromPool(false, (byte) gpu.index())));
        copied = MemoryScope.keep(new CUDAEvent());
        try (CUDAStream current = torch_cuda.getCurrentCUDAStream((byte) device.index())) {
            copied.record(current);
            copied.block(copies);
            torch_cuda.setCurrentCUDAStream(copies);
            try {
                for (int i = 0; i < from.length; i++) {
                    to[i].copy_(from[i], true);
                }
            } finally {
                torch_cuda.setCurrentCUDAStream(current);
            }
        }
        copied.record(copies);
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
