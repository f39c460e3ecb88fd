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
 * A thread that sends while another one runs the backward pass. To hand a collective to NCCL takes the host as long as
 * several kernels; where the host is what the backward pass waits for, it would be longer by all of that.
 *
 * <p>What is sent waits for what the stream of the backward pass has been given until then. That includes all that
 * makes the gradients in question, and perhaps a few kernels more.
 */
final class CommunicationThread implements AutoCloseable {
    private final Device device;
    private final ExecutorService thread = Executors.newSingleThreadExecutor(run -> {
        var daemon = new Thread(run, "gradients");
        daemon.setDaemon(true);
        return daemon;
    });
    private final Deque<Future<?>> unsent = new ArrayDeque<>(); // as far as anybody has looked
    private volatile Throwable failure; // the first

    CommunicationThread(Device device) {
        this.device = device;
    }

    /**
     * Lets the thread queue its work on the stream that is current here, and a record of memory see it, from now on.
     */
    void follow() {
        if (AllocatorReports.isListening()) {
            ThreadLocalState state = MemoryScope.keep(new ThreadLocalState());
            send(() -> {
                ThreadLocalState.setThreadLocalState(state);
                state.close();
            });
        }
        if (!device.isCuda()) return;
        CUDAStream here = MemoryScope.keep(torch_cuda.getCurrentCUDAStream((byte) device.index()));
        send(() -> {
            device.makeCurrent();
            torch_cuda.setCurrentCUDAStream(here);
            here.close();
        });
    }

    /** Runs this after all that came before, unless something of that has failed. */
    void send(Runnable message) {
        unsent.add(thread.submit(() -> {
            try {
                if (failure == null) message.run();
            } catch (Throwable thrown) { // an error too: what came after it would meet another message's collective
                failure = thrown;
            }
        }));
    }

    /** Waits until all is sent, and throws what went wrong first. */
    void drain() {
        awaitAllBut(0);
        if (failure instanceof Error error) throw error;
        if (failure != null) throw (RuntimeException) failure; // a Runnable throws nothing else
    }

    /** Waits until no more than so many messages are left to be sent. */
    void awaitAllBut(int left) {
        try {
            while (unsent.size() > left) unsent.remove().get();
        } catch (ExecutionException e) {
            throw new AssertionError("a message keeps what it throws", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while gradients were being sent", e);
        }
    }

    /** Ends the thread when it has done what it was given, and waits for that. */
    @Override
    public void close() {
        thread.shutdown();
        try {
            thread.awaitTermination(1, TimeUnit.MINUTES);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
