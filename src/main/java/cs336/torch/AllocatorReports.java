package cs336.torch;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.CallbackThreadInitializer;
import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.util.Objects;
import org.bytedeco.pytorch.global.torch.DebugInfoKind;
import org.bytedeco.pytorch.global.torch.DeviceType;

/**
 * The reports that libtorch's allocators send to a memory profiler: the address and size of each block when it is
 * allocated or freed, on the CPU and on CUDA. The CUDA sizes are those that {@code max_memory_allocated} counts.
 *
 * <p>libtorch reports to a thread-local object of its class {@code c10::MemoryReportingInfoBase}, which the threads of
 * a backward pass inherit from the thread that started it. The presets bind the class, but Java cannot subclass it.
 * Therefore this class builds the object in native memory, in the layout of the Itanium C++ ABI: a pointer to a virtual
 * function table with five entries. The object is never freed, because other threads may still report after
 * {@link #unlisten}.
 */
public final class AllocatorReports {
    /**
     * A listener that receives each allocation and each release of libtorch's allocators. It is called on the thread
     * that allocates or frees, under the allocator's lock: it must be fast and must not allocate tensors.
     */
    public interface AllocationListener {
        /**
         * Called when a block was allocated or freed.
         *
         * @param address the block's address
         * @param bytes the block's size, negative when it was freed
         * @param cuda whether the block is on a GPU
         * @param index the GPU's index, 0 for the CPU
         */
        void reported(long address, long bytes, boolean cuda, int index);
    }

    private interface Report extends Callback {
        void invoke(Pointer self, Pointer block, long bytes, long allocated, long reserved, short device);
    }

    private interface OutOfMemory extends Callback {
        void invoke(Pointer self, long bytes, long allocated, long reserved, short device);
    }

    private interface IsEnabled extends Callback {
        boolean invoke(Pointer self);
    }

    private interface Destructor extends Callback {
        void invoke(Pointer self);
    }

    private static final byte KIND = DebugInfoKind.PROFILER_STATE.value;
    private static final int SHARED_POINTER_BYTES = 2 * Native.POINTER_SIZE;
    /**
     * The size of the object: more than any subclass needs. All bytes after the table pointer are zero, which PyTorch's
     * own profiler reads as "not profiling".
     */
    private static final int OBJECT_BYTES = 4096;

    private static volatile AllocationListener listener;
    private static Thread listening; // the thread that called listen()

    private static final Report REPORT = (self, block, bytes, allocated, reserved, device) -> {
        AllocationListener current = listener;
        if (current != null) {
            // c10::Device is one byte of type and one byte of index.
            boolean cuda = (byte) device == DeviceType.CUDA.value;
            current.reported(Pointer.nativeValue(block), bytes, cuda, cuda ? device >> Byte.SIZE : 0);
        }
    };
    private static final OutOfMemory OUT_OF_MEMORY = (self, bytes, allocated, reserved, device) -> {};
    private static final IsEnabled IS_ENABLED = self -> listener != null;
    private static final Destructor DESTRUCTOR = self -> {};

    private static final Memory TABLE = table(DESTRUCTOR, DESTRUCTOR, REPORT, OUT_OF_MEMORY, IS_ENABLED);
    private static final Memory OBJECT = object(TABLE);
    private static final Function PUSH;
    private static final Function POP;
    private static final Function GET;

    static {
        NativeLibrary c10 = Torch.library("libc10.so");
        String debugInfo = "_ZN3c1020ThreadLocalDebugInfo";
        PUSH = c10.getFunction(debugInfo + "5_pushENS_13DebugInfoKindESt10shared_ptrINS_13DebugInfoBaseEE");
        POP = c10.getFunction(debugInfo + "4_popENS_13DebugInfoKindE");
        GET = c10.getFunction(debugInfo + "3getENS_13DebugInfoKindE");
        // Attach a C++ thread to the JVM once, at its first report, and not at each report.
        boolean daemon = true;
        boolean detachAfterEachCall = false;
        for (Callback callback : new Callback[] {REPORT, OUT_OF_MEMORY, IS_ENABLED}) {
            Native.setCallbackThreadInitializer(
                    callback, new CallbackThreadInitializer(daemon, detachAfterEachCall, "libtorch"));
        }
    }

    private AllocatorReports() {}

    /**
     * Starts to report the allocations of this thread and of its backward passes.
     *
     * @throws IllegalStateException if there is a listener already, or PyTorch's profiler runs on this thread
     */
    public static synchronized void listen(AllocationListener newListener) {
        Objects.requireNonNull(newListener, "newListener must not be null");
        if (listener != null) {
            throw new IllegalStateException("memory is already being recorded; stop that recording first");
        }
        if (GET.invokePointer(new Object[] {KIND}) != null) {
            throw new IllegalStateException("a profiler runs on this thread; stop it before recording memory");
        }
        listener = newListener;
        listening = Thread.currentThread();
        // A std::shared_ptr without a control block: it points to the object and does not count owners.
        var shared = new Memory(SHARED_POINTER_BYTES);
        shared.clear();
        shared.setPointer(0, OBJECT);
        PUSH.invokeVoid(new Object[] {KIND, shared});
    }

    /**
     * Returns whether there is a listener. PyTorch's profiler must not be started then, because it would abort the
     * process.
     */
    public static boolean isListening() {
        return listener != null;
    }

    /**
     * Checks that this thread may call {@link #unlisten}.
     *
     * @throws IllegalStateException if there is no listener, or this is not the thread that called {@link #listen}
     */
    public static synchronized void requireListening() {
        if (listener == null) {
            throw new IllegalStateException("memory is not being recorded");
        }
        if (Thread.currentThread() != listening) {
            throw new IllegalStateException("a memory recording must be stopped on the thread that started it, "
                    + listening.getName() + ", not on "
                    + Thread.currentThread().getName());
        }
    }

    /**
     * Stops the reports.
     *
     * @throws IllegalStateException if {@link #requireListening} does
     */
    public static synchronized void unlisten() {
        requireListening();
        var shared = new Memory(SHARED_POINTER_BYTES);
        POP.invokeVoid(new Object[] {shared, KIND});
        listener = null;
        listening = null;
    }

    private static Memory table(Callback... functions) {
        var table = new Memory((long) functions.length * Native.POINTER_SIZE);
        for (int i = 0; i < functions.length; i++) {
            table.setPointer((long) i * Native.POINTER_SIZE, CallbackReference.getFunctionPointer(functions[i]));
        }
        return table;
    }

    private static Memory object(Memory table) {
        var object = new Memory(OBJECT_BYTES);
        object.clear();
        object.setPointer(0, table);
        return object;
    }
}
