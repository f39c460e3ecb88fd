package cs336.torch;

import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.bytedeco.javacpp.Loader;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * Loads libtorch once, the right one and in the right order, and sets what is global in it: seed, threads, TF32.
 *
 * <p>Every class of this package calls {@link #load()} before its first native call. Code that calls the presets
 * directly should do so too: what is set here must be set before libtorch is loaded.
 */
public final class Torch {
    private static final String MAX_PHYSICAL_BYTES = "org.bytedeco.javacpp.maxPhysicalBytes";

    static {
        weighNoAllocations();
        GpuBuild.choose();
        letIdleThreadsSleep();
        NativeCache.load(torch.class);
        if (torch.hasCUDA()) {
            NativeCache.load(torch_cuda.class);
        }
    }

    private Torch() {}

    /** Loads the native libraries if that has not happened yet. The first load on a machine unpacks them (seconds). */
    public static void load() {}

    /** One of libtorch's libraries, such as {@code libc10.so}, for functions that the presets leave out. */
    static NativeLibrary library(String file) {
        return NativeLibrary.getInstance(
                Path.of(Loader.load(torch.class)).resolveSibling(file).toString());
    }

    /**
     * JavaCPP asks the system for this process's size at each new native object, to stop before memory runs out. That
     * takes as long as a small operation itself (1.2 of 2.3 µs), and memory scopes free in time without it.
     */
    private static void weighNoAllocations() {
        if (System.getProperty(MAX_PHYSICAL_BYTES) == null) {
            System.setProperty(MAX_PHYSICAL_BYTES, "0");
        }
    }

    /**
     * OpenBLAS and OpenMP each keep a pool of threads, and OpenMP's spin while OpenBLAS computes: on two cores a small
     * training step takes ten times as long. OpenMP reads its wait policy when it is loaded.
     */
    private static void letIdleThreadsSleep() {
        NativeEnvironment.setDefault("OMP_WAIT_POLICY", "passive");
    }

    /** Seeds every random generator of libtorch, on the CPU and on all CUDA devices. */
    public static void seed(long seed) {
        torch.manual_seed(seed);
    }

    /**
     * Sets how many threads one operation on the CPU may use.
     *
     * @throws IllegalArgumentException if {@code threads} is below 1
     */
    public static void setThreads(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("threads must be at least 1, not " + threads);
        }
        torch.set_num_threads(threads);
    }

    /** How many threads one operation on the CPU may use. */
    public static int threads() {
        return torch.get_num_threads();
    }

    /**
     * Allows or forbids TF32 in matrix products of fp32 tensors on CUDA. PyTorch's default, and ours, is to forbid it:
     * the product then carries all 24 bits of fp32. Whoever reports a time for fp32 says which it was.
     */
    public static void allowTf32(boolean allow) {
        torch.globalContext().setAllowTF32CuBLAS(allow);
        torch.globalContext().setAllowTF32CuDNN(allow);
    }

    /** The versions of the bindings in use, as in {@code 2.10.0-1.5.13}. */
    public static String version() {
        try {
            return Loader.getVersion("org.bytedeco", "pytorch");
        } catch (IOException e) {
            throw new UncheckedIOException("the jar of the PyTorch presets names no version", e);
        }
    }
}
