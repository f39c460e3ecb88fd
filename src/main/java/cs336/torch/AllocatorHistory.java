package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.NativeLong;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * The history that PyTorch's allocator for CUDA keeps of itself while it is asked to: the file that
 * {@code torch.cuda.memory._dump_snapshot} writes. The functions are exported by libtorch_cuda and left out by the
 * presets.
 */
public final class AllocatorHistory implements AutoCloseable {
    private static final long MOST_ENTRIES = 1_000_000;
    /** std::string of GNU's library: a pointer, a length, and room for a short text or the capacity. */
    private static final int STRING_BYTES = 32;

    private static final int LENGTH = 8;

    private final Function record;
    private final Function pickled;

    private AllocatorHistory() {
        NativeLibrary library = Torch.library("libtorch_cuda.so");
        record = library.getFunction("_ZN5torch4cuda22_record_memory_historyEbblbbbbb");
        pickled = library.getFunction("_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev");
    }

    /** Begins a history, and drops what was recorded before. */
    public static AllocatorHistory start() {
        var history = new AllocatorHistory();
        history.record(true);
        return history;
    }

    private void record(boolean enabled) {
        byte yes = 1;
        byte no = 0;
        byte context = enabled ? yes : no;
        // enabled, context of blocks, most entries, context of entries, C++ frames, forget before, compile context,
        // annotations
        record.invokeVoid(new Object[] {context, context, new NativeLong(MOST_ENTRIES), context, no, context, no, no});
    }

    /** From now on, entries of this thread carry this text as {@code user_metadata}. */
    public void tag(String text) {
        torch_cuda.setUserMetadata(text);
    }

    /** The history until now as a pickle. */
    public byte[] pickled() {
        var text = new Memory(STRING_BYTES);
        text.clear();
        pickled.invokeVoid(new Object[] {text}); // the hidden first argument: where the result goes
        return text.getPointer(0).getByteArray(0, Math.toIntExact(text.getLong(LENGTH)));
    }

    @Override
    public void close() {
        tag("");
        record(false);
    }
}
