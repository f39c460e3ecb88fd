package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.NativeLong;
import com.sun.jna.Pointer;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * A recording of the memory history of PyTorch's CUDA caching allocator, as {@code torch.cuda.memory._dump_snapshot}
 * writes it. libtorch_cuda exports the two functions that this class calls; the presets do not bind them.
 */
public final class AllocatorHistory implements AutoCloseable {
    private static final long MOST_ENTRIES = 1_000_000;
    /** A std::string of libstdc++: a pointer, a length, and 16 bytes for a short text or the capacity. */
    private static final int STRING_BYTES = 32;

    private static final int LENGTH_OFFSET = 8;
    private static final int SHORT_TEXT_OFFSET = 16;

    private final Function record;
    private final Function pickled;
    private final Function delete; // operator delete of C++

    private AllocatorHistory() {
        NativeLibrary library = Torch.library("libtorch_cuda.so");
        record = library.getFunction("_ZN5torch4cuda22_record_memory_historyEbblbbbbb");
        pickled = library.getFunction("_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev");
        delete = library.getFunction("_ZdlPv");
    }

    /**
     * Starts recording and discards earlier entries. The recording keeps the last 1,000,000 entries.
     *
     * @throws UnsatisfiedLinkError with the CPU build of libtorch
     */
    public static AllocatorHistory start() {
        var history = new AllocatorHistory();
        history.record(true);
        return history;
    }

    private void record(boolean enabled) {
        byte yes = 1;
        byte no = 0;
        byte flag = enabled ? yes : no;
        // enabled, record_context, trace_alloc_max_entries, trace_alloc_record_context, record_cpp_context,
        // clearHistory, compileContext, globalRecordAnnotations
        record.invokeVoid(new Object[] {flag, flag, new NativeLong(MOST_ENTRIES), flag, no, flag, no, no});
    }

    /** Sets the {@code user_metadata} of later entries of this thread. */
    public void tag(String text) {
        torch_cuda.setUserMetadata(text);
    }

    /** Returns the history so far, in Python's pickle format. */
    public byte[] pickled() {
        var text = new Memory(STRING_BYTES);
        text.clear();
        pickled.invokeVoid(new Object[] {text}); // the hidden first argument is the address of the result
        Pointer characters = text.getPointer(0);
        try {
            return characters.getByteArray(0, Math.toIntExact(text.getLong(LENGTH_OFFSET)));
        } finally {
            if (!characters.equals(text.share(SHORT_TEXT_OFFSET))) { // a long text is outside of the object
                delete.invokeVoid(new Object[] {characters});
            }
        }
    }

    /** Stops recording, and removes the {@link #tag} of this thread. */
    @Override
    public void close() {
        tag("");
        record(false);
    }
}
