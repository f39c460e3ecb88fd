package cs336.notebook;

import com.sun.jna.Function;
import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.PointerByReference;
import java.util.Map;

/**
 * An access to JVMTI's {@code StopThread}, which throws an error in another thread, as debuggers do.
 *
 * <p>A busy loop never checks its interrupt flag, and {@code Thread.stop} works on JDK 17 but not on later versions.
 * The offsets and constants come from {@code jni.h} and {@code jvmti.h}, which belong to Java's binary interface.
 */
final class ThreadStop {
    private static final int JNI_GET_ENV = 6;
    private static final int JVMTI_STOP_THREAD = 6;
    private static final int JVMTI_ADD_CAPABILITIES = 141;
    private static final int JVMTI_VERSION_1_2 = 0x30010200;
    private static final int CAN_SIGNAL_THREAD = 1 << 10;
    private static final int CAPABILITIES_BYTES = 16;
    private static final int THREAD_NOT_ALIVE = 15;

    private static Pointer jvmti;

    private ThreadStop() {}

    /**
     * Throws {@code error} in {@code target} at its next safepoint. A thread in native code receives it when it
     * returns.
     *
     * @throws IllegalStateException if this virtual machine does not support JVMTI
     */
    static synchronized void raise(Thread target, Error error) {
        if (jvmti == null) {
            jvmti = connect();
        }
        int status = (int) function(jvmti, JVMTI_STOP_THREAD)
                .invoke(
                        int.class,
                        new Object[] {jvmti, target, error},
                        Map.of(Library.OPTION_ALLOW_OBJECTS, Boolean.TRUE));
        if (status != THREAD_NOT_ALIVE) {
            check("StopThread", status);
        }
    }

    private static Pointer connect() {
        var machine = new PointerByReference();
        check(
                "JNI_GetCreatedJavaVMs",
                NativeLibrary.getProcess()
                        .getFunction("JNI_GetCreatedJavaVMs")
                        .invokeInt(new Object[] {machine, 1, new IntByReference()}));
        var environment = new PointerByReference();
        check("GetEnv", function(machine.getValue(), JNI_GET_ENV).invokeInt(new Object[] {
            machine.getValue(), environment, JVMTI_VERSION_1_2
        }));
        Pointer jvmti = environment.getValue();
        try (Memory capabilities = new Memory(CAPABILITIES_BYTES)) {
            capabilities.clear();
            capabilities.setInt(0, CAN_SIGNAL_THREAD);
            check("AddCapabilities", function(jvmti, JVMTI_ADD_CAPABILITIES).invokeInt(new Object[] {jvmti, capabilities
            }));
        }
        return jvmti;
    }

    private static Function function(Pointer environment, int index) {
        return Function.getFunction(environment.getPointer(0).getPointer((long) index * Native.POINTER_SIZE));
    }

    private static void check(String call, int status) {
        if (status != 0) {
            throw new IllegalStateException(
                    "this virtual machine cannot stop a thread: " + call + " returned " + status);
        }
    }
}
