package cs336.kernels.runtime;

import cs336.torch.Device;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * PyTorch's current stream of a GPU, with the GPU's context current on this thread, for several launches. Looking up
 * both takes a noticeable fraction of the launch overhead, so a pass of several kernels does it once.
 */
public final class LaunchStream implements AutoCloseable {
    private final CUDAStream current;
    private final CUstream_st stream; // null for the default stream
    private final CUctx_st popped = new CUctx_st();

    private LaunchStream(Device device) {
        current = torch_cuda.getCurrentCUDAStream((byte) device.index());
        stream = current.stream();
        Driver.check(cudart.cuCtxPushCurrent(Driver.context(device.index())), "cuCtxPushCurrent");
    }

    /** Looks up the current stream. It must be closed on the same thread. */
    public static LaunchStream of(Device device) {
        return new LaunchStream(device);
    }

    CUstream_st stream() {
        return stream;
    }

    @Override
    public void close() {
        cudart.cuCtxPopCurrent(popped);
        current.close();
    }
}
