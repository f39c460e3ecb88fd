package cs336.torch;

import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Loader;
import org.bytedeco.pytorch.Generator;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * The loader of libtorch and its global settings: seed, threads, TF32.
 *
 * <p>Every class of this package calls {@link #load()} before its first native call. Code that calls the presets
 * directly must do so too, because some settings only take effect before libtorch is loaded.
 */
public final class Torch {
    /** The largest number of threads of a CPU operation. OpenMP ends the process if it cannot create a thread. */
    public static final int MOST_THREADS = 1024;

    private static final String LOG_LEVEL = "TORCH_CPP_LOG_LEVEL";
    private static final String MAX_PHYSICAL_BYTES = "org.bytedeco.javacpp.maxPhysicalBytes";

    private static final Path LIBRARY;

    static {
        disableMemoryChecks();
        GpuBuild.choose();
        setPassiveWaitPolicy();
        LIBRARY = NativeCache.load(torch.class);
        if (torch.hasCUDA()) {
            NativeCache.load(torch_cuda.class);
        }
    }

    private Torch() {}

    /**
     * Loads the native libraries once. The first load on a machine unpacks them, which takes seconds for the CPU build
     * and up to minutes for the GPU build.
     */
    public static void load() {}

    /**
     * Suppresses log messages of libtorch's C++ code below the level ERROR. Otherwise c10d also logs each failure that
     * it throws as an exception, with a C++ stack trace. A level that the user has set in TORCH_CPP_LOG_LEVEL has
     * priority.
     */
    public static void logErrorsOnly() {
        NativeEnvironment.setDefault(LOG_LEVEL, "ERROR");
        torch.initLogging();
    }

    /** Returns one of libtorch's libraries, such as {@code libc10.so}, to call functions without a binding. */
    static NativeLibrary library(String file) {
        return NativeLibrary.getInstance(LIBRARY.resolveSibling(file).toString());
    }

    /**
     * Disables JavaCPP's check of the process size at each native allocation. The check takes half the time of a small
     * operation (1.2 of 2.3 µs). It is not needed, because memory scopes free objects in time.
     */
    private static void disableMemoryChecks() {
        if (System.getProperty(MAX_PHYSICAL_BYTES) == null) {
            System.setProperty(MAX_PHYSICAL_BYTES, "0");
        }
    }

    /**
     * Lets idle OpenMP threads sleep. By default they spin and take cores from OpenBLAS's own threads: on two cores a
     * small training step is ten times slower. OpenMP reads the policy when it is loaded.
     */
    private static void setPassiveWaitPolicy() {
        NativeEnvironment.setDefault("OMP_WAIT_POLICY", "passive");
    }

    /** Seeds libtorch's random generators of the CPU and of all CUDA devices. */
    public static void seed(long seed) {
        torch.manual_seed(seed);
    }

    /** Returns the state of a device's random generator. */
    public static byte[] randomState(Device device) {
        try (var scope = MemoryScope.open()) {
            Tensor state = generator(device).get_state();
            var bytes = new byte[(int) state.numel()];
            new BytePointer(state.data_ptr()).get(bytes);
            return bytes;
        }
    }

    /**
     * Sets the state of a device's random generator.
     *
     * @param state as {@link #randomState} returned it for a device of this kind
     * @throws IllegalArgumentException if it has another length than a state of this device
     */
    public static void setRandomState(Device device, byte[] state) {
        try (var scope = MemoryScope.open()) {
            Generator generator = generator(device);
            Tensor copy = generator.get_state(); // filled without an operator, which a recorded program would contain
            if (state.length != copy.numel()) {
                throw new IllegalArgumentException("state must have " + copy.numel() + " bytes, not " + state.length);
            }
            new BytePointer(copy.data_ptr()).put(state);
            generator.set_state(copy);
        }
    }

    private static Generator generator(Device device) {
        return torch.globalContext().defaultGenerator(device.toTorch());
    }

    /**
     * Sets the number of threads that a CPU operation may use.
     *
     * @param threads from 1 to {@value #MOST_THREADS}
     * @throws IllegalArgumentException if {@code threads} is another number
     */
    public static void setThreads(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("threads must be at least 1, not " + threads);
        }
        if (threads > MOST_THREADS) {
            throw new IllegalArgumentException("threads must be at most " + MOST_THREADS + ", not " + threads);
        }
        torch.set_num_threads(threads);
    }

    /** Returns the number of threads that a CPU operation may use. */
    public static int threads() {
        return torch.get_num_threads();
    }

    /**
     * Allows or forbids TF32 for fp32 tensors in cuBLAS, in cuDNN and in the kernels of this project. PyTorch's default
     * forbids it in matrix multiplications, whose results then have the full 24-bit significand of fp32.
     */
    public static void allowTf32(boolean allow) {
        torch.globalContext().setAllowTF32CuBLAS(allow);
        torch.globalContext().setAllowTF32CuDNN(allow);
    }

    /**
     * Allows or forbids TF32 as {@link #allowTf32} does, until the returned scope is closed. Closing it restores the
     * settings of cuBLAS and cuDNN.
     */
    public static Tf32Scope tf32(boolean allow) {
        var scope = new Tf32Scope(
                torch.globalContext().allowTF32CuBLAS(), torch.globalContext().allowTF32CuDNN());
        allowTf32(allow);
        return scope;
    }

    /** A scope in which TF32 is allowed or forbidden for the whole process. */
    public static final class Tf32Scope implements AutoCloseable {
        private final boolean cublas; // the settings before
        private final boolean cudnn;
        private boolean open = true;

        private Tf32Scope(boolean cublas, boolean cudnn) {
            this.cublas = cublas;
            this.cudnn = cudnn;
        }

        /** Restores the settings that preceded this scope. */
        @Override
        public void close() {
            if (open) {
                open = false;
                torch.globalContext().setAllowTF32CuBLAS(cublas);
                torch.globalContext().setAllowTF32CuDNN(cudnn);
            }
        }
    }

    /** Returns whether matrix multiplications of fp32 tensors may round their inputs to TF32. */
    public static boolean allowsTf32() {
        return torch.globalContext().allowTF32CuBLAS();
    }

    /** Returns the versions of PyTorch and of the presets, such as {@code 2.10.0-1.5.13}. */
    public static String version() {
        try {
            return Loader.getVersion("org.bytedeco", "pytorch");
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the version in the jar of the PyTorch presets", e);
        }
    }
}
