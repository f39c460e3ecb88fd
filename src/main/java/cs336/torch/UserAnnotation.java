package cs336.torch;

import java.util.Objects;
import org.bytedeco.pytorch.Dispatcher;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;

/** A named range in a trace of PyTorch's profiler, as {@code torch.profiler.record_function} creates it. */
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

    /** Begins a range, which {@link #close} ends. */
    public static UserAnnotation enter(String name) {
        Objects.requireNonNull(name, "name must not be null");
        try (IValue boxedName = new IValue(printable(name))) {
            IValueVector stack = MemoryScope.keep(new IValueVector(boxedName, NO_ARGUMENTS));
            ENTER.callBoxed(stack);
            return new UserAnnotation(stack);
        }
    }

    /**
     * Replaces characters that are not ASCII or need JSON escapes, because the profiler prints such names as "unknown".
     */
    private static String printable(String name) {
        var printable = new StringBuilder(name);
        for (int i = 0; i < name.length(); i++) {
            char c = name.charAt(i);
            if (c == '"') {
                printable.setCharAt(i, '\'');
            } else if (c == '\\') {
                printable.setCharAt(i, '/');
            } else if (c < ' ') {
                printable.setCharAt(i, ' ');
            } else if (c > '~') {
                printable.setCharAt(i, '?');
            }
        }
        return printable.toString();
    }

    @Override
    public void close() {
        if (handle.isNull()) {
            return;
        }
        EXIT.callBoxed(handle);
        handle.close();
    }
}
