package cs336.kernels.runtime;

import cs336.torch.Device;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * PyTorch's current stream of a card, with the card's context as the thread's own: where launches that follow each
 * other go. To ask for both takes a part of a short launch's time, so a pass of several kernels asks once.
 */
public final class LaunchStream implements AutoCloseable {
    private final CUDAStream current;
    private final CUstream_st stream;
    private final CUctx_st popped = new CUctx_st();

    private LaunchStream(Device device) {
        current = torch_cuda.getCurrentCUDAStream((byte) device.index());
        stream = current.stream();
        Driver.check(cudart.cuCtxPushCurrent(Driver.context(device.index())), "cuCtxPushCurrent");
    }

    /** Opens it; close it on the same thread. */
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
