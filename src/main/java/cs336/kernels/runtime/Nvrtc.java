package cs336.kernels.runtime;

import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.StringArray;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.bytedeco.javacpp.Loader;

/**
 * NVRTC, NVIDIA's run-time compiler. It is called through JNA because its JavaCPP preset needs the CUDA driver; the
 * library itself does not, so kernels compile on machines without a GPU.
 *
 * <p>The library is loaded from the jar cuda-redist on the class path or in the local Maven repository, to which
 * {@code mvn dependency:resolve} downloads it, or else from the system, where a CUDA toolkit or the Python package
 * nvidia-cuda-nvrtc provides it.
 */
final class Nvrtc {
    private static final String ENCODING = "UTF-8";
    private static final int SUCCESS = 0;
    private static final int COMPILATION_ERROR = 6;
    private static final int STATIC_SHARED_BYTES = 49_152; // that every architecture allows
    private static final Pattern OTHER_ERROR = Pattern.compile("\\b(error|fatal)\\b");
    // libnvrtc needs libnvrtc-builtins to be loaded.
    private static final String[] IN_JAR = {"libnvrtc-builtins.so.13.1", "libnvrtc.so.13"};
    private static final String[] IN_SYSTEM = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

    /** The functions of nvrtc.h. */
    private interface NvrtcLibrary extends Library {
        int nvrtcVersion(IntByReference major, IntByReference minor);

        int nvrtcCreateProgram(
                PointerByReference program,
                String source,
                String name,
                int headers,
                StringArray headerTexts,
                StringArray headerNames);

        int nvrtcCompileProgram(Pointer program, int options, StringArray texts);

        int nvrtcGetProgramLogSize(Pointer program, LongByReference bytes);

        int nvrtcGetProgramLog(Pointer program, Pointer log);

        int nvrtcGetCUBINSize(Pointer program, LongByReference bytes);

        int nvrtcGetCUBIN(Pointer program, Pointer image);

        int nvrtcDestroyProgram(PointerByReference program);

        String nvrtcGetErrorString(int result);
    }

    private static NvrtcLibrary api;

    /**
     * Returns the library, which the first call loads.
     *
     * @throws IllegalStateException if it is not found
     */
    private static synchronized NvrtcLibrary api() {
        if (api == null) {
            api = load();
        }
        return api;
    }

    private Nvrtc() {}

    /** Returns the version, such as {@code 13.1}. */
    static String version() {
        var major = new IntByReference();
        var minor = new IntByReference();
        check(api().nvrtcVersion(major, minor), "nvrtcVersion");
        return major.getValue() + "." + minor.getValue();
    }

    /** Returns whether NVRTC has its own cache, as versions from 12.9 on do. */
    static boolean hasCache() {
        String[] version = version().split("\\.");
        int major = Integer.parseInt(version[0]);
        return major > 12 || major == 12 && Integer.parseInt(version[1]) >= 9;
    }

    /**
     * Compiles a source to machine code.
     *
     * @param options NVRTC's command-line options
     * @throws KernelCompileException if the source has errors
     */
    static Cubin compile(KernelSource source, List<String> options) {
        NvrtcLibrary api = api();
        var program = new PointerByReference();
        var includes = source.includes();
        check(
                api.nvrtcCreateProgram(
                        program,
                        source.text(),
                        source.name(),
                        includes.size(),
                        strings(includes.values().toArray(String[]::new)),
                        strings(includes.keySet().toArray(String[]::new))),
                "nvrtcCreateProgram");
        try {
            Pointer handle = program.getValue();
            int result = api.nvrtcCompileProgram(handle, options.size(), strings(options.toArray(String[]::new)));
            var size = new LongByReference();
            check(api.nvrtcGetProgramLogSize(handle, size), "nvrtcGetProgramLogSize");
            var text = new Memory(size.getValue() + 1);
            text.clear();
            check(api.nvrtcGetProgramLog(handle, text), "nvrtcGetProgramLog");
            String log = text.getString(0, ENCODING);
            if (result == COMPILATION_ERROR) {
                throw new KernelCompileException(
                        source.name() + " " + String.join(" ", options), log + tooMuchSharedMemory(log));
            }
            check(result, "nvrtcCompileProgram " + String.join(" ", options) + "\n" + log);
            check(api.nvrtcGetCUBINSize(handle, size), "nvrtcGetCUBINSize");
            var image = new Memory(size.getValue());
            check(api.nvrtcGetCUBIN(handle, image), "nvrtcGetCUBIN");
            return new Cubin(image.getByteArray(0, (int) size.getValue()), log);
        } finally {
            api.nvrtcDestroyProgram(program);
        }
    }

    /** Returns the error of ptxas that is not in NVRTC's log; empty if there is none. */
    private static String tooMuchSharedMemory(String log) {
        if (OTHER_ERROR.matcher(log).find()) {
            return "";
        }
        return Cubin.resourcesIn(log).entrySet().stream()
                .filter(kernel -> kernel.getValue().sharedBytes() > STATIC_SHARED_BYTES)
                .map(kernel -> "error: kernel '" + kernel.getKey() + "' declares "
                        + kernel.getValue().sharedBytes() + " bytes of static shared memory, more than the"
                        + " architecture allows; declare it as extern __shared__ and launch with its size\n")
                .collect(Collectors.joining());
    }

    private static StringArray strings(String[] texts) {
        return new StringArray(texts, ENCODING);
    }

    private static void check(int result, String call) {
        if (result != SUCCESS) {
            throw new IllegalStateException(call + " failed: " + api().nvrtcGetErrorString(result));
        }
    }

    private static NvrtcLibrary load() {
        Path downloaded = inRepository(Path.of(System.getProperty("user.home"), ".m2", "repository"));
        String[] files = unpacked(downloaded, Nvrtc.class.getClassLoader());
        if (files != null) {
            Native.load(files[0], Library.class);
            return load(files[1]);
        }
        for (String name : IN_SYSTEM) {
            try {
                return load(name);
            } catch (UnsatisfiedLinkError e) {
                // There may be another version.
            }
        }
        throw new IllegalStateException("kernels cannot be compiled, because NVRTC was not found\nsearched: the jar "
                + "cuda-redist on the class path, " + downloaded.getFileName() + " in ~/.m2/repository, "
                + String.join(", ", IN_SYSTEM)
                + "\n'mvn dependency:resolve' downloads this jar (380 MB), also for machines without a GPU;\n"
                + "or add the folder of an installed libnvrtc to LD_LIBRARY_PATH");
    }

    private static NvrtcLibrary load(String library) {
        return Native.load(library, NvrtcLibrary.class, Map.of(Library.OPTION_STRING_ENCODING, ENCODING));
    }

    private static String platform() {
        return Loader.getPlatform().replace("-gpu", "");
    }

    /** Returns the jar with NVRTC in a local Maven repository; the jar need not exist. */
    static Path inRepository(Path repository) {
        try {
            String version = Loader.getVersion("org.bytedeco", "cuda");
            return repository
                    .resolve(Path.of("org", "bytedeco", "cuda-redist", version))
                    .resolve("cuda-redist-" + version + "-" + platform() + ".jar");
        } catch (IOException e) {
            throw new UncheckedIOException("the version of the CUDA presets could not be read", e);
        }
    }

    /**
     * Unpacks the libraries to JavaCPP's cache and returns their paths.
     *
     * @param jar the jar that is used if the libraries are not on the class path
     * @return null if they are in neither
     */
    static String[] unpacked(Path jar, ClassLoader classPath) {
        var files = new String[IN_JAR.length];
        try (var loader = new URLClassLoader(new URL[] {jar.toUri().toURL()}, classPath)) {
            for (int i = 0; i < files.length; i++) {
                URL resource = loader.getResource("org/bytedeco/cuda/" + platform() + "/" + IN_JAR[i]);
                if (resource == null) {
                    return null;
                }
                files[i] = Loader.cacheResource(resource).getAbsolutePath();
            }
            return files;
        } catch (IOException e) {
            throw new UncheckedIOException("libnvrtc could not be unpacked from its jar", e);
        }
    }
}
