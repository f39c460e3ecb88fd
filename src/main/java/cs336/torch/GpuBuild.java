package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.bytedeco.javacpp.Loader;

/**
 * The choice between libtorch's CPU build and GPU build. The GPU build is used if it is on the class path and the CUDA
 * libraries that it needs are installed; without them it does not load even for work on the CPU. The property
 * {@code org.bytedeco.javacpp.platform.extension} overrides the choice.
 */
final class GpuBuild {
    private static final String EXTENSION = "org.bytedeco.javacpp.platform.extension";
    private static final Path DRIVER = Path.of("/proc/driver/nvidia/version");
    private static final AtomicBoolean WARNED = new AtomicBoolean();
    private static final List<String> REQUIRED_LIBRARIES =
            List.of("libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12", "libcudnn.so.9", "libnccl.so.2");

    private GpuBuild() {}

    /** Chooses the build; must be called before libtorch is loaded. */
    static void choose() {
        if (System.getProperty(EXTENSION) == null) {
            // Without a choice JavaCPP loads both builds, and libtorch aborts the process.
            System.setProperty(EXTENSION, isOnClassPath() && missingLibraries().isEmpty() ? "-gpu" : "");
        }
    }

    /** Returns the suffix of the chosen build's folders and jars, which is empty for the CPU build. */
    static String extension() {
        return System.getProperty(EXTENSION, "");
    }

    /** Returns the reason why CUDA is not available, and how to change that. */
    static String unavailableReason() {
        if (!isOnClassPath()) {
            return "libtorch on the class path is the CPU build (" + Loader.getPlatform()
                    + "). The GPU build is added if an"
                    + " NVIDIA driver is loaded (" + DRIVER + "): delete target/cs336.jar and build again"
                    + " on a machine with the driver, or after 'export CS336_MAVEN_OPTIONS=-Pgpu'.";
        }
        List<String> missing = missingLibraries();
        if (!missing.isEmpty()) {
            return "CUDA 13 libraries are missing: " + String.join(", ", missing)
                    + ". Install CUDA 13 with cuDNN 9 and NCCL 2, and add their folders to LD_LIBRARY_PATH.";
        }
        return "the property " + EXTENSION + " is '" + extension() + "' and must be '-gpu'.";
    }

    /** On a machine with an NVIDIA driver, prints once why the CPU build is used. */
    static void warnIfUnused() {
        if (extension().isEmpty() && Files.exists(DRIVER) && WARNED.compareAndSet(false, true)) {
            System.err.println("This machine has an NVIDIA driver, but the CPU is used: " + unavailableReason());
        }
    }

    private static boolean isOnClassPath() {
        String library = "org/bytedeco/pytorch/" + Loader.getPlatform() + "-gpu/libjnitorch.so";
        return GpuBuild.class.getClassLoader().getResource(library) != null;
    }

    private static List<String> missingLibraries() {
        Function dlopen = NativeLibrary.getProcess().getFunction("dlopen");
        int lazyBinding = 1; // RTLD_LAZY
        return REQUIRED_LIBRARIES.stream()
                .filter(name -> dlopen.invokePointer(new Object[] {name, lazyBinding}) == null)
                .toList();
    }
}
