package cs336.distributed.training;

import cs336.torch.AllocatorReports;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.bytedeco.pytorch.ThreadLocalState;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * A thread that starts collectives while the caller runs the backward pass, in the order that
 * {@link DistributedDataParallel} decides. Starting an NCCL collective takes the host as long as launching several
 * kernels, which would delay a launch-bound backward pass.
 *
 * <p>A collective waits for the kernels that the backward pass has queued on its stream so far. These include the
 * kernels that compute its gradients, and perhaps a few more.
 */
final class CommunicationThread implements AutoCloseable {
    private final Device device;
    private final ExecutorService executor = Executors.newSingleThreadExecutor(run -> {
        var daemon = new Thread(run, "gradients");
        daemon.setDaemon(true);
        return daemon;
    });
    private final Deque<Future<?>> submitted = new ArrayDeque<>(); // not yet awaited
    private volatile Throwable failure; // the first one

    CommunicationThread(Device device) {
        this.device = device;
    }

    /** Makes the thread use the caller's current stream, and the caller's memory profiler if one is recording. */
    void useCurrentStream() {
        if (AllocatorReports.isListening()) {
            ThreadLocalState state = MemoryScope.keep(new ThreadLocalState());
            submit(() -> {
                ThreadLocalState.setThreadLocalState(state);
                state.close();
            });
        }
        if (!device.isCuda()) {
            return;
        }
        CUDAStream stream = MemoryScope.keep(torch_cuda.getCurrentCUDAStream((byte) device.index()));
        submit(() -> {
            device.makeCurrent();
            torch_cuda.setCurrentCUDAStream(stream);
            stream.close();
        });
    }

    /** Runs an action after all earlier ones, unless one of them has failed. */
    void submit(Runnable action) {
        submitted.add(executor.submit(() -> {
            try {
                if (failure == null) {
                    action.run();
                }
            } catch (Throwable thrown) {
                // Also after an Error: a later collective would be matched with a different one on the other ranks.
                failure = thrown;
            }
        }));
    }

    /** Waits until all actions have run, and throws the first failure. */
    void drain() {
        awaitAllBut(0);
        if (failure instanceof Error error) {
            throw error;
        }
        if (failure != null) {
            throw (RuntimeException) failure; // a Runnable throws no checked exception
        }
    }

    /** Waits until at most {@code left} actions have not run yet. */
    void awaitAllBut(int left) {
        try {
            while (submitted.size() > left) {
                submitted.remove().get();
            }
        } catch (ExecutionException e) {
            throw new AssertionError("actions catch their own exceptions", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while waiting for gradient collectives", e);
        }
    }

    /** Ends the thread after the actions submitted so far, and waits for its end. */
    @Override
    public void close() {
        executor.shutdown();
        try {
            executor.awaitTermination(1, TimeUnit.MINUTES);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
