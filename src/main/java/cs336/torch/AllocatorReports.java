package cs336.torch;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.CallbackThreadInitializer;
import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import org.bytedeco.pytorch.global.torch.DebugInfoKind;
import org.bytedeco.pytorch.global.torch.DeviceType;

/**
 * What libtorch's allocators tell a memory profiler: each block that they hand out or take back, with its address and
 * size, at the moment when it happens. One and the same report exists for the CPU and for CUDA, where the sizes are
 * those of the blocks that count towards {@code max_memory_allocated}.
 *
 * <p>libtorch reports to an object of its class {@code c10::MemoryReportingInfoBase} that a thread carries with it, and
 * that the threads of a backward pass take over from the thread which began it. The presets map the class but cannot
 * implement it. So the object is laid out here by hand, as C++ (Itanium ABI) does: a pointer to a table of five
 * functions. It lives as long as the process, because a thread may still report while the listening ends.
 */
public final class AllocatorReports {
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
     * Larger than any object of this kind, and zero: PyTorch's own profiler, asked whether it is on, reads here that it
     * is off.
     */
    private static final int OBJECT_BYTES = 4096;

    private static volatile AllocationListener listener;

    private static final Report REPORT = (self, block, bytes, allocated, reserved, device) -> {
        AllocationListener now = listener;
        if (now != null) {
            // c10::Device is a type and an index, of one byte each.
            boolean cuda = (byte) device == DeviceType.CUDA.value;
            now.reported(Pointer.nativeValue(block), bytes, cuda, cuda ? device >> Byte.SIZE : 0);
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
        // A thread of C++ becomes one of Java once, at its first report, and not for each.
        boolean daemon = true;
        boolean detachAfterEachCall = false;
        for (Callback callback : new Callback[] {REPORT, OUT_OF_MEMORY, IS_ENABLED}) {
            Native.setCallbackThreadInitializer(
                    callback, new CallbackThreadInitializer(daemon, detachAfterEachCall, "libtorch"));
        }
    }

    private AllocatorReports() {}

    /**
     * Begins to report what this thread, and the backward passes that it starts, allocate and free.
     *
     * @throws IllegalStateException if somebody else listens, or PyTorch's profiler runs on this thread
     */
    public static synchronized void listen(AllocationListener l) {
        if (listener != null) {
            throw new IllegalStateException("memory is being recorded already; stop that record first");
        }
        if (GET.invokePointer(new Object[] {KIND}) != null) {
            throw new IllegalStateException(
                    "a profiler runs on this thread; memory can be recorded before or after it");
        }
        listener = l;
        // A shared pointer that counts no owners: the object, and no control block.
        var shared = new Memory(SHARED_POINTER_BYTES);
        shared.clear();
        shared.setPointer(0, OBJECT);
        PUSH.invokeVoid(new Object[] {KIND, shared});
    }

    /** Whether somebody listens. PyTorch's profiler then cannot be started: it would end the process. */
    public static boolean isListening() {
        return listener != null;
    }

    /** Ends what {@link #listen} began, on the same thread. */
    public static synchronized void unlisten() {
        var shared = new Memory(SHARED_POINTER_BYTES);
        POP.invokeVoid(new Object[] {shared, KIND});
        listener = null;
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
