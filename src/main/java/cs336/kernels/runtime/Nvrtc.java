package cs336.kernels.runtime;

import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.StringArray;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URL;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bytedeco.javacpp.Loader;

/**
 * NVIDIA's run-time compiler. Called through JNA: the presets' class for it wants a driver, the library itself does
 * not, so kernels compile on machines without a card.
 *
 * <p>The library is taken from the class path (the jar cuda-redist) or else from the system, where a CUDA toolkit or
 * the Python package nvidia-cuda-nvrtc have it.
 */
final class Nvrtc {
    private static final String ENCODING = "UTF-8";
    private static final int SUCCESS = 0;
    private static final int COMPILATION_ERROR = 6;
    private static final String[] IN_JAR = {"libnvrtc-builtins.so.13.1", "libnvrtc.so.13"
    }; // the latter wants the former
    private static final String[] IN_SYSTEM = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

    /** Functions of nvrtc.h, as they stand there. */
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
     * The library, loaded when first needed.
     *
     * @throws IllegalStateException if it is not there, each time
     */
    private static synchronized NvrtcLibrary api() {
        if (api == null) api = load();
        return api;
    }

    private Nvrtc() {}

    /** As in {@code 13.1}. */
    static String version() {
        IntByReference major = new IntByReference();
        IntByReference minor = new IntByReference();
        check(api().nvrtcVersion(major, minor), "nvrtcVersion");
        return major.getValue() + "." + minor.getValue();
    }

    /** Whether this version keeps a cache of its own, as those from 12.9 on do. */
    static boolean hasCache() {
        String[] version = version().split("\\.");
        int major = Integer.parseInt(version[0]);
        return major > 12 || major == 12 && Integer.parseInt(version[1]) >= 9;
    }

    /**
     * Compiles to machine code.
     *
     * @param options as on NVRTC's command line
     * @throws KernelCompileException if the source has errors
     */
    static Cubin compile(KernelSource source, List<String> options) {
        NvrtcLibrary api = api();
        PointerByReference program = new PointerByReference();
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
            LongByReference size = new LongByReference();
            check(api.nvrtcGetProgramLogSize(handle, size), "nvrtcGetProgramLogSize");
            Memory text = new Memory(size.getValue() + 1);
            text.clear();
            check(api.nvrtcGetProgramLog(handle, text), "nvrtcGetProgramLog");
            String log = text.getString(0, ENCODING);
            if (result == COMPILATION_ERROR) {
                throw new KernelCompileException(source.name() + " " + String.join(" ", options), log);
            }
            check(result, "nvrtcCompileProgram " + String.join(" ", options) + "\n" + log);
            check(api.nvrtcGetCUBINSize(handle, size), "nvrtcGetCUBINSize");
            Memory image = new Memory(size.getValue());
            check(api.nvrtcGetCUBIN(handle, image), "nvrtcGetCUBIN");
            return new Cubin(image.getByteArray(0, (int) size.getValue()), log);
        } finally {
            api.nvrtcDestroyProgram(program);
        }
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
        List<String> tried = new ArrayList<>();
        String[] files = fromClassPath();
        if (files != null) {
            Native.load(files[0], Library.class);
            return load(files[1]);
        }
        tried.add("the class path (jar cuda-redist)");
        for (String name : IN_SYSTEM) {
            try {
                return load(name);
            } catch (UnsatisfiedLinkError e) {
                tried.add(name);
            }
        }
        throw new IllegalStateException("kernels cannot be compiled: NVRTC was found in none of " + tried
                + ". Build with 'mvn -Pgpu -DskipTests package', which brings it, or add the folder of an installed"
                + " libnvrtc to LD_LIBRARY_PATH.");
    }

    private static NvrtcLibrary load(String library) {
        return Native.load(library, NvrtcLibrary.class, Map.of(Library.OPTION_STRING_ENCODING, ENCODING));
    }

    /** Unpacked into JavaCPP's cache, or null where the jar is not there. */
    private static String[] fromClassPath() {
        String[] files = new String[IN_JAR.length];
        for (int i = 0; i < files.length; i++) {
            URL resource = Nvrtc.class
                    .getClassLoader()
                    .getResource("org/bytedeco/cuda/" + Loader.getPlatform().replace("-gpu", "") + "/" + IN_JAR[i]);
            if (resource == null) return null;
            try {
                File file = Loader.cacheResource(resource);
                files[i] = file.getAbsolutePath();
            } catch (IOException e) {
                throw new UncheckedIOException("libnvrtc could not be unpacked from its jar", e);
            }
        }
        return files;
    }
}
