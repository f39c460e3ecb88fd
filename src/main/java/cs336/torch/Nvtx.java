package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import java.util.List;
import java.util.Optional;

/**
 * A scope in which each {@link ProfilerRange} is also an NVTX range of the same name, for Nsight Systems. It needs
 * NVIDIA's NVTX library: libnvtx3interop since CUDA 12.9, libnvToolsExt before. Without the library it does nothing.
 *
 * <pre>{@code
 * try (var nvtx = Nvtx.open()) { … }
 * }</pre>
 *
 * <p>A command's measuring processes open such a scope if an NVIDIA tool has started the command, as in {@code nsys
 * profile -t cuda,nvtx ./cs336 benchmark --size xl}.
 */
public final class Nvtx implements AutoCloseable {
    private static final List<String> LIBRARIES =
            List.of("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "libnvToolsExt.so");

    /** The variable by which NVIDIA's tools name the library that receives the NVTX ranges of a process. */
    private static final String INJECTION = "NVTX_INJECTION64_PATH";

    /** The NVTX library, searched for at first use. */
    static final class NvtxLibrary {
        static final Optional<NativeLibrary> FOUND = load();
    }

    private final RangeListener listener;

    private Nvtx(RangeListener listener) {
        this.listener = listener;
    }

    /** Opens a scope. Ranges that are already open are not shown. */
    public static Nvtx open() {
        RangeListener listener = NvtxLibrary.FOUND.map(Nvtx::listener).orElse(null);
        if (listener != null) {
            ProfilerRange.addListener(listener);
        }
        return new Nvtx(listener);
    }

    /** Opens a scope if one of NVIDIA's tools has started this process, and otherwise one that does nothing. */
    public static Nvtx openIfTraced() {
        return System.getenv(INJECTION) == null ? new Nvtx(null) : open();
    }

    private static RangeListener listener(NativeLibrary library) {
        Function push = library.getFunction("nvtxRangePushA");
        Function pop = library.getFunction("nvtxRangePop");
        return new RangeListener() {
            @Override
            public void entered(String name) {
                push.invokeInt(new Object[] {name});
            }

            @Override
            public void left(String name) {
                pop.invokeInt(new Object[0]);
            }
        };
    }

    private static Optional<NativeLibrary> load() {
        for (String name : LIBRARIES) {
            try {
                NativeLibrary library = NativeLibrary.getInstance(name);
                library.getFunction("nvtxRangePushA");
                return Optional.of(library);
            } catch (UnsatisfiedLinkError e) {
                continue;
            }
        }
        return Optional.empty();
    }

    @Override
    public void close() {
        if (listener != null) {
            ProfilerRange.removeListener(listener);
        }
    }
}
