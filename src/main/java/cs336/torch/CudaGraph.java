package cs336.torch;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.bytedeco.cuda.cudart.CUgraphExec_st;
import org.bytedeco.cuda.cudart.CUgraph_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.cuda.DeviceAssertionsDataVectorCUDAKernelLaunchInfoVectorPair;
import org.bytedeco.pytorch.cuda.StreamFilter;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * GPU work that is recorded once and replayed with a single launch, which removes the launch overhead of its kernels.
 * The counterpart of {@code torch.cuda.CUDAGraph}.
 *
 * <pre>{@code
 * Runnable work = () -> y.copy_(model.forward(x));
 * try (var graph = CudaGraph.on(device)) {
 *     graph.warmUp(work);
 *     graph.record(work);
 *     x.copy_(newInput);
 *     graph.replay(); // y now belongs to the new x
 * }
 * }</pre>
 *
 * <p>A replay reads and writes the addresses that were recorded. Inputs and outputs are therefore tensors that exist
 * before the capture and stay alive as long as the graph; memory allocated during the capture comes from a pool that
 * belongs to the graph. Work that waits for the GPU ({@code item()}, a copy to the host) cannot be recorded, nor can
 * PyTorch's random operators, such as dropout; in a {@linkplain cs336.compile.Compiled compiled} function dropout can.
 * All methods must be called on the same thread.
 *
 * <p>Graphs of one GPU must not run at the same time. They are recorded on the same stream, and matrix multiplications
 * that were recorded on a stream share a workspace: results could be wrong, or a kernel could wait forever.
 */
public final class CudaGraph implements AutoCloseable {
    private static final int THREAD_LOCAL = 1; // with global mode, CUDA work of any other thread breaks the capture
    private static final long AUTO_FREE_ON_LAUNCH = 1;

    /** The next memory pool's number, far above the numbers that libtorch assigns. */
    private static final AtomicLong NEXT_POOL = new AtomicLong(1L << 40);

    /** The recording stream of each GPU. All graphs of a GPU share it, because cuBLAS keeps a workspace per stream. */
    private static final SideStream STREAM = new SideStream();

    private static volatile long capturingStream = -1;
    private static volatile CudaGraph recording; // the graph of the capture in progress, or null

    /**
     * Tells the allocator which stream's allocations belong to the pool. All graphs share it, because JavaCPP allows
     * only ten callback objects of a type.
     */
    private static StreamFilter filter;

    private final Device device;
    private final CUgraphExec_st executable = MemoryScope.keep(new CUgraphExec_st());
    private MemoryPool shared; // the pool of the graph that this one continues, or null
    private MemoryPool pool;
    private Tensor replaySeed; // 0-dimensional, int64: a random number that each replay draws, if the graph reads it
    private final AtomicInteger seeds = new AtomicInteger(); // derived from it; backward threads derive some
    private boolean recorded;
    private boolean closed;

    private CudaGraph(Device device) {
        this.device = device;
        device.makeCurrent();
    }

    /**
     * Returns a graph that has recorded nothing yet. Makes the device the current one of this thread.
     *
     * @throws IllegalArgumentException if the device is not a GPU
     */
    public static CudaGraph on(Device device) {
        if (!device.isCuda()) {
            throw new IllegalArgumentException("device must be a CUDA GPU, not " + device);
        }
        return new CudaGraph(device);
    }

    /**
     * Creates a graph that is replayed after this one. It shares this graph's memory pool and may read tensors that
     * this graph allocates. Tensors of this graph that the continuation reads or that hold results must not be freed
     * before the continuation is recorded. Each replay of this graph must be followed by a replay of the continuation.
     *
     * @throws IllegalStateException if this graph has recorded nothing yet or is closed
     */
    public CudaGraph continued() {
        requireOpen();
        if (!recorded) {
            throw new IllegalStateException("continued() was called before record()");
        }
        var next = new CudaGraph(device);
        next.shared = pool;
        return next;
    }

    /**
     * Runs work on the graph's own stream without recording it, and waits for it. Must be called at least once before
     * {@link #record}: cuBLAS and other libraries allocate their workspaces when they first use a stream, which is not
     * allowed during a capture.
     *
     * @throws IllegalStateException if the graph is closed
     */
    public void warmUp(Runnable work) {
        requireOpen();
        onStream(work);
    }

    /**
     * Records one run of the work. Nothing is computed.
     *
     * @param work the same GPU work as in the warm-up, queued by this thread and by PyTorch's backward threads
     * @throws IllegalStateException if the graph is closed or has recorded something already, or the work cannot be
     *     recorded; the message says why, and the graph can then record other work
     */
    public void record(Runnable work) {
        requireOpen();
        if (recorded) {
            throw new IllegalStateException("the graph has recorded its work already");
        }
        onStream(() -> capture(work));
        recorded = true;
    }

    /**
     * Returns a number that identifies the capture in progress, or 0 if there is none. A graph and its continuations
     * have the same number. Code that caches a tensor must include this number in the cache key. A tensor computed
     * during a capture has no values until the first replay, and a graph must not read a cached tensor that may be
     * freed before the graph.
     */
    public static long captureInProgress() {
        CudaGraph graph = recording;
        return graph == null ? 0 : graph.pool.number;
    }

    /** Returns whether a graph is being recorded and will contain the work that this thread now queues on a device. */
    public static boolean isRecordedOn(Device device) {
        if (recording == null || !device.isCuda()) {
            return false;
        }
        try (CUDAStream current = torch_cuda.getCurrentCUDAStream((byte) device.index())) {
            CUstream_st stream = current.stream(); // null if it is the default stream
            return stream != null && stream.address() == capturingStream;
        }
    }

    /**
     * Adds a seed for random numbers to the graph that is being recorded. Each replay draws one random number from
     * PyTorch's generator of the device. A seed is the sum of this number and of the number of earlier seeds.
     *
     * @return a new 0-dimensional int64 tensor in the caller's memory scope, whose value differs between the seeds of a
     *     graph and between replays
     * @throws IllegalStateException if no graph is being recorded
     */
    public static Tensor newSeed() {
        CudaGraph graph = recording;
        if (graph == null) {
            throw new IllegalStateException("newSeed() was called while no graph is being recorded");
        }
        return graph.replaySeed.add(new Scalar((long) graph.seeds.getAndIncrement()));
    }

    /** Returns the number of seeds so far of the graph that is being recorded, or 0 if there is none. */
    public static int seeds() {
        CudaGraph graph = recording;
        return graph == null ? 0 : graph.seeds.get();
    }

    /** Returns whether {@link #record} has succeeded. */
    public boolean isRecorded() {
        return recorded;
    }

    /**
     * Enqueues the recorded work on the current stream and returns at once.
     *
     * @throws IllegalStateException if nothing is recorded, the graph is closed or the launch fails
     */
    public void replay() {
        requireOpen();
        if (!recorded) {
            throw new IllegalStateException("replay() was called before record()");
        }
        if (seeds.get() > 0) {
            try (var scope = MemoryScope.open()) {
                replaySeed.random_();
            }
        }
        try (CUDAStream current = torch_cuda.getCurrentCUDAStream((byte) device.index())) {
            check(cudart.cuGraphLaunch(executable, current.stream()), "cuGraphLaunch");
        }
    }

    /** Waits for the GPU and frees the graph and its memory pool. Tensors allocated in the capture become invalid. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        if (recorded) {
            device.synchronize();
            cudart.cuGraphExecDestroy(executable);
            freeSeed();
            pool.release();
        }
        executable.close();
    }

    private void freeSeed() {
        replaySeed.close();
        seeds.set(0);
    }

    /** A memory pool of the caching allocator for one graph and its continuations. */
    private static final class MemoryPool {
        private final byte device;
        private final long number = NEXT_POOL.getAndIncrement();
        private final LongPointer words = MemoryScope.keep(new LongPointer(new long[] {number, 0}));

        /** The type is the presets' name for libtorch's {@code MempoolId_t}, a pair of 64-bit numbers. */
        private final DeviceAssertionsDataVectorCUDAKernelLaunchInfoVectorPair id =
                MemoryScope.keep(new DeviceAssertionsDataVectorCUDAKernelLaunchInfoVectorPair(words));

        private int graphs;

        MemoryPool(Device device) {
            this.device = (byte) device.index();
        }

        /** Returns whether all graphs that have used this pool are closed. */
        boolean isReleased() {
            return graphs == 0;
        }

        /** Counts one more graph that uses this pool. */
        void use() {
            graphs++;
        }

        /** Releases the pool for one graph. After the last one the pool cannot be used again. */
        void release() {
            torch_cuda.getAllocator().releasePool(device, id);
            if (--graphs == 0) {
                id.close();
                words.close();
            }
        }
    }

    private void requireOpen() {
        if (closed) {
            throw new IllegalStateException("the graph is closed");
        }
    }

    private void onStream(Runnable work) {
        device.synchronize();
        STREAM.run(device, work);
        device.synchronize();
    }

    private void capture(Runnable work) {
        if (shared != null && shared.isReleased()) {
            throw new IllegalStateException("the graph that this one continues is closed");
        }
        try (var scope = MemoryScope.open()) { // outside of the pool, whose blocks the graph itself reuses
            replaySeed = MemoryScope.keep(torch.zeros(new long[0], device.options(DType.INT64)));
        }
        torch_cuda.getAllocator().emptyCache(); // freeing cached blocks is not allowed during a capture
        pool = shared == null ? new MemoryPool(device) : shared;
        pool.use();
        boolean instantiated = false;
        try (var graph = new CUgraph_st()) {
            try {
                capture(work, graph);
                check(cudart.cuGraphInstantiate(executable, graph, AUTO_FREE_ON_LAUNCH), "cuGraphInstantiate");
                instantiated = true;
            } finally {
                if (!graph.isNull()) {
                    cudart.cuGraphDestroy(graph);
                }
            }
        } finally {
            if (!instantiated) {
                freeSeed();
                pool.release();
            }
        }
    }

    private void capture(Runnable work, CUgraph_st graph) {
        byte index = (byte) device.index();
        CUstream_st raw = STREAM.of(device).stream();
        synchronized (CudaGraph.class) {
            torch_cuda.beginAllocateToPool(index, pool.id, filter());
            capturingStream = raw.address();
            recording = this;
            try {
                check(cudart.cuStreamBeginCapture(raw, THREAD_LOCAL), "cuStreamBeginCapture");
                RuntimeException failure = null;
                int ended;
                try {
                    work.run();
                } catch (RuntimeException e) {
                    failure = e;
                } finally { // also after an Error, because all graphs of the GPU share the stream
                    ended = cudart.cuStreamEndCapture(raw, graph);
                }
                if (failure != null || ended != cudart.CUDA_SUCCESS) {
                    throw notRecordable(failure, ended);
                }
            } finally {
                torch_cuda.endAllocateToPool(index, pool.id);
                capturingStream = -1;
                recording = null;
            }
        }
    }

    private static IllegalStateException notRecordable(RuntimeException failure, int ended) {
        String reason = failure == null
                ? "cuStreamEndCapture returned error " + ended
                : String.valueOf(failure.getMessage()).lines().findFirst().orElse("");
        return new IllegalStateException(
                "the work cannot be recorded as a CUDA graph: " + reason
                        + "; it must not wait for the GPU (item(), copies to the host) or draw random numbers;"
                        + " such work runs only without a graph, and dropout also if it is compiled with fusion",
                failure);
    }

    private static synchronized StreamFilter filter() {
        if (filter == null) {
            filter = MemoryScope.keep(new StreamFilter() {
                @Override
                public boolean call(Pointer stream) {
                    return stream != null && stream.address() == capturingStream;
                }
            });
        }
        return filter;
    }

    private static void check(int result, String call) {
        if (result != cudart.CUDA_SUCCESS) {
            throw new IllegalStateException(call + " failed with error " + result);
        }
    }
}
