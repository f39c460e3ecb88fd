package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import java.util.List;
import java.util.Optional;

/**
 * Shows ranges to NVIDIA's tools: while it is open, each {@link ProfilerRange} is an NVTX range of the same name, which
 * Nsight Systems draws. Needs NVIDIA's library of these functions, which CUDA 12.9 and later bring as libnvtx3interop
 * and earlier ones as libnvToolsExt; without it, ranges are shown to nobody.
 *
 * <pre>{@code
 * try (var nvtx = Nvtx.open()) { … }
 * }</pre>
 *
 * The processes in which commands measure do so by themselves when such a tool has started them, as in {@code nsys
 * profile -t cuda,nvtx ./cs336 benchmark --size xl}.
 */
public final class Nvtx implements AutoCloseable {
    private static final List<String> LIBRARIES =
            List.of("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "libnvToolsExt.so");

    /** By this variable NVIDIA's tools tell a process which library is to hear of its ranges. */
    private static final String INJECTION = "NVTX_INJECTION64_PATH";

    /** Looked for when it is needed first. */
    static final class NvtxLibrary {
        static final Optional<NativeLibrary> FOUND = load();
    }

    private final RangeListener listener;

    private Nvtx(RangeListener listener) {
        this.listener = listener;
    }

    /** Begins to show ranges, those that open from now on, until {@link #close}. */
    public static Nvtx open() {
        RangeListener listener = NvtxLibrary.FOUND.map(Nvtx::listener).orElse(null);
        if (listener != null) ProfilerRange.addListener(listener);
        return new Nvtx(listener);
    }

    /**
     * The same where one of NVIDIA's tools has started this process; elsewhere ranges are shown to nobody, and cost
     * nothing.
     */
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
        if (listener != null) ProfilerRange.removeListener(listener);
    }
}
