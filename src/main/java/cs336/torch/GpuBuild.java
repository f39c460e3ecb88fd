package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import java.util.List;
import org.bytedeco.javacpp.Loader;

/**
 * Which of libtorch's two builds is loaded. The one for GPUs is taken if it is on the class path and the libraries of
 * CUDA that it needs and that no artifact brings can be found; it would not load without them, not even for work on the
 * CPU. The user's own choice, the property {@code org.bytedeco.javacpp.platform.extension}, comes first.
 */
final class GpuBuild {
    private static final String EXTENSION = "org.bytedeco.javacpp.platform.extension";
    private static final List<String> NEEDED =
            List.of("libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12", "libcudnn.so.9", "libnccl.so.2");

    private GpuBuild() {}

    /** Takes the right build; to be called before libtorch is loaded. */
    static void choose() {
        if (System.getProperty(EXTENSION) == null) {
            // Without a choice JavaCPP would load both builds, one after the other, and libtorch ends the process.
            System.setProperty(EXTENSION, isOnClassPath() && missingLibraries().isEmpty() ? "-gpu" : "");
        }
    }

    /** Why CUDA is not there although someone asked for it, and what to do about it. */
    static String whyNot() {
        if (!isOnClassPath()) {
            return "the libtorch on the class path is the CPU build (" + Loader.getPlatform()
                    + "). The GPU build is added"
                    + " where an NVIDIA driver is loaded (/proc/driver/nvidia/version): install the driver and build again,"
                    + " or build with 'mvn -Pgpu'.";
        }
        List<String> missing = missingLibraries();
        if (!missing.isEmpty()) {
            return "libraries of CUDA 13 were not found: " + String.join(", ", missing)
                    + ". Install CUDA 13 with cuDNN 9 and" + " NCCL 2 and name their folders in LD_LIBRARY_PATH.";
        }
        return "the property " + EXTENSION + " chose '" + System.getProperty(EXTENSION) + "'; '-gpu' is needed.";
    }

    private static boolean isOnClassPath() {
        String library = "org/bytedeco/pytorch/" + Loader.getPlatform() + "-gpu/libjnitorch.so";
        return GpuBuild.class.getClassLoader().getResource(library) != null;
    }

    private static List<String> missingLibraries() {
        Function dlopen = NativeLibrary.getProcess().getFunction("dlopen");
        int lazily = 1; // RTLD_LAZY
        return NEEDED.stream()
                .filter(name -> dlopen.invokePointer(new Object[] {name, lazily}) == null)
                .toList();
    }
}
