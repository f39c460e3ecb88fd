package cs336.torch;

import org.bytedeco.pytorch.Dispatcher;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;

/**
 * A named stretch in a recording of PyTorch's profiler, as Python's {@code torch.profiler.record_function} makes it.
 */
public final class UserAnnotation implements AutoCloseable {
    private static final OperatorHandle ENTER;
    private static final OperatorHandle EXIT;
    private static final IValue NO_ARGUMENTS;

    static {
        Torch.load();
        Dispatcher dispatcher = Dispatcher.singleton();
        ENTER = MemoryScope.keep(dispatcher.findSchemaOrThrow("profiler::_record_function_enter_new", ""));
        EXIT = MemoryScope.keep(dispatcher.findSchemaOrThrow("profiler::_record_function_exit", "_RecordFunction"));
        NO_ARGUMENTS = MemoryScope.keep(new IValue());
    }

    private final IValueVector handle;

    private UserAnnotation(IValueVector handle) {
        this.handle = handle;
    }

    /** Begins a stretch; {@link #close} ends it. */
    public static UserAnnotation enter(String name) {
        try (IValue boxedName = new IValue(printable(name))) {
            IValueVector stack = MemoryScope.keep(new IValueVector(boxedName, NO_ARGUMENTS));
            ENTER.callBoxed(stack);
            return new UserAnnotation(stack);
        }
    }

    /** The profiler calls "unknown" what would need escapes in JSON or is not ASCII. */
    private static String printable(String name) {
        StringBuilder printable = new StringBuilder(name);
        for (int i = 0; i < name.length(); i++) {
            char c = name.charAt(i);
            if (c == '"') printable.setCharAt(i, '\'');
            else if (c == '\\') printable.setCharAt(i, '/');
            else if (c < ' ') printable.setCharAt(i, ' ');
            else if (c > '~') printable.setCharAt(i, '?');
        }
        return printable.toString();
    }

    @Override
    public void close() {
        EXIT.callBoxed(handle);
        handle.close();
    }
}
