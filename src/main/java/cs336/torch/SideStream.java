package cs336.torch;

import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * One CUDA stream per GPU, other than the default stream, from libtorch's stream pool. All streams of a GPU share its
 * memory.
 */
public final class SideStream {
    private final Map<Device, CUDAStream> streams = new ConcurrentHashMap<>();

    /** Creates streams when they are first used. */
    public SideStream() {}

    /**
     * Returns the stream of a GPU, which this object owns.
     *
     * @throws IllegalArgumentException if the device is no GPU
     */
    public CUDAStream of(Device gpu) {
        Objects.requireNonNull(gpu, "gpu must not be null");
        if (!gpu.isCuda()) {
            throw new IllegalArgumentException("gpu must be a CUDA GPU, not " + gpu);
        }
        return streams.computeIfAbsent(
                gpu, device -> MemoryScope.keep(torch_cuda.getStreamFromPool(false, (byte) device.index())));
    }

    /**
     * Runs work with this stream as the current one of the thread, like {@code with torch.cuda.stream(s)} in Python.
     * Unlike there, the current device of the thread does not change. The work does not wait for work that is queued on
     * the previous current stream, nor the other way round.
     *
     * @throws IllegalArgumentException if the device is no GPU
     */
    public void run(Device gpu, Runnable work) {
        Objects.requireNonNull(work, "work must not be null");
        CUDAStream stream = of(gpu);
        try (CUDAStream before = torch_cuda.getCurrentCUDAStream((byte) gpu.index())) {
            torch_cuda.setCurrentCUDAStream(stream);
            try {
                work.run();
            } finally {
                torch_cuda.setCurrentCUDAStream(before);
            }
        }
    }
}
