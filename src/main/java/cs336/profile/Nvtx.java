package cs336.profile;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import cs336.torch.Range;
import java.util.List;
import java.util.Optional;

/**
 * Shows ranges to NVIDIA's tools: while it is open, each {@link Range} is an NVTX range of the same name, which Nsight
 * Systems draws. Needs NVIDIA's library of these functions, which CUDA 12.9 and later bring as libnvtx3interop and
 * earlier ones as libnvToolsExt; without it, ranges are shown to nobody.
 *
 * <pre>{@code
 * nsys profile -t cuda,nvtx java … // where the program says:
 * try (var nvtx = Nvtx.open()) { … }
 * }</pre>
 */
public final class Nvtx implements AutoCloseable {
    private static final List<String> LIBRARIES =
            List.of("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "libnvToolsExt.so");
    private static final Optional<NativeLibrary> LIBRARY = load();

    private final Range.Listener listener;

    private Nvtx(Range.Listener listener) {
        this.listener = listener;
    }

    /** Whether the library was found. */
    public static boolean isAvailable() {
        return LIBRARY.isPresent();
    }

    /** Begins to show ranges, those that open from now on, until {@link #close}. */
    public static Nvtx open() {
        Range.Listener listener = LIBRARY.map(Nvtx::listener).orElse(null);
        if (listener != null) Range.listen(listener);
        return new Nvtx(listener);
    }

    private static Range.Listener listener(NativeLibrary library) {
        Function push = library.getFunction("nvtxRangePushA");
        Function pop = library.getFunction("nvtxRangePop");
        return new Range.Listener() {
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
        if (listener != null) Range.unlisten(listener);
    }
}
