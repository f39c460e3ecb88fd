package cs336.torch;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.DispatchKeySet;
import org.bytedeco.pytorch.Dispatcher;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.KernelFunction;
import org.bytedeco.pytorch.OperatorHandle;
import org.bytedeco.pytorch.RegistrationHandleRAII;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DispatchKey;

/**
 * A hook that receives every operator that a thread runs, below autograd and autocast. These are the operators of a
 * forward pass, of an optimizer, and of a backward pass on the same thread ({@link Backward}). Composite operators
 * arrive decomposed, casts of autocast as separate operators, and a {@link JavaOperator} as one call. The counterpart
 * of {@code torch.utils._python_dispatch.TorchDispatchMode}.
 *
 * <p>It registers a boxed kernel for all operators under the dispatch key {@code Fake}, which PyTorch leaves free, and
 * adds the key to the thread's dispatch keys. The kernel is a JNA callback, because the presets cannot create one.
 */
public final class OperatorInterceptor {
    /** A listener that receives the calls of the intercepted thread. */
    public interface OperatorListener {
        /**
         * Handles a call of PyTorch's dispatcher; {@link OperatorCall#proceed} runs the operator.
         *
         * @param call valid until this method returns
         */
        void dispatched(OperatorCall call);

        /** Handles a call of an operator in Java and returns its outputs; {@link JavaOperator#compute} runs it. */
        Tensor[] called(JavaOperator operator, Tensor... inputs);

        /**
         * Refuses a read of elements on the host, which no operator makes.
         *
         * @throws IllegalStateException always
         */
        default void refuseRead() {
            throw new IllegalStateException("elements of a tensor cannot be read while its function is recorded");
        }
    }

    /** A call of an operator with its arguments on the dispatcher's stack. */
    public static final class OperatorCall {
        private final long address;
        private final OperatorHandle handle;
        private final DispatchKeySet keys;
        private final IValueVector stack;

        private OperatorCall(long handle, long keys, long stack) {
            this.handle = new OperatorHandle(new NativeAddress(handle));
            this.keys = new DispatchKeySet(DispatchKeySet.Raw.RAW, keys & RegisteredKernel.KEYS_BELOW);
            this.stack = new IValueVector(new NativeAddress(stack));
            address = new com.sun.jna.Pointer(handle).getLong(0);
        }

        /** Returns a number that is unique for the operator in this process. */
        public long operatorId() {
            return address;
        }

        /** Returns the operator. */
        public OperatorHandle handle() {
            return handle;
        }

        /** Returns the dispatch keys below this interceptor, for {@code redispatchBoxed}. */
        public DispatchKeySet keys() {
            return keys;
        }

        /** Returns the arguments before {@link #proceed}, and the results afterwards. */
        public IValueVector stack() {
            return stack;
        }

        /** Runs the operator, which replaces the arguments on the stack by its results. */
        public void proceed() {
            handle.redispatchBoxed(keys, stack);
        }

        /** Runs the operator like {@link #proceed}; the listener receives the operators that its kernel calls. */
        public void decompose() {
            torch.tls_set_dispatch_key_included(KEY, true);
            try {
                proceed();
            } finally {
                torch.tls_set_dispatch_key_included(KEY, false);
            }
        }
    }

    /** The signature of {@code c10::BoxedKernel::InternalBoxedKernelFunction}. */
    private interface BoxedKernel extends Callback {
        void invoke(long functor, long operator, long keys, long stack);
    }

    /** A pointer to a native object that it does not own. */
    private static final class NativeAddress extends Pointer {
        NativeAddress(long address) {
            super((Pointer) null);
            this.address = address;
        }
    }

    private static final DispatchKey KEY = DispatchKey.Fake;
    private static final long BOXED_KERNEL_OFFSET = 8; // of the function pointer in c10::KernelFunction
    private static final ThreadLocal<OperatorInterceptor> CURRENT = new ThreadLocal<>();
    private static final Set<OperatorInterceptor> OPEN = ConcurrentHashMap.newKeySet();

    static {
        Torch.load();
    }

    /** The kernel in PyTorch's dispatcher, registered at the first interception. */
    private static final class RegisteredKernel {
        static final BoxedKernel CALLBACK = (functor, operator, keys, stack) -> dispatch(operator, keys, stack);
        static final long KEYS_BELOW;
        static final IValue NONE;

        /** The registration ends when this object is freed. */
        static final RegistrationHandleRAII REGISTRATION;

        static {
            try (var scope = MemoryScope.open()) {
                NONE = MemoryScope.keep(new IValue());
                KEYS_BELOW = new DispatchKeySet(DispatchKeySet.FullAfter.FULL_AFTER, KEY).raw_repr();
                KernelFunction kernel = MemoryScope.keep(new KernelFunction());
                new com.sun.jna.Pointer(kernel.address())
                        .setPointer(BOXED_KERNEL_OFFSET, CallbackReference.getFunctionPointer(CALLBACK));
                REGISTRATION = MemoryScope.keep(Dispatcher.singleton()
                        .registerFallback(KEY, kernel, MemoryScope.keep(new BytePointer("cs336"))));
            }
        }

        private RegisteredKernel() {}

        /** Registers the kernel, once. */
        static void register() {}
    }

    private static final AtomicLong INTERCEPTIONS = new AtomicLong();

    private final OperatorListener listener;
    private final long number = INTERCEPTIONS.incrementAndGet();
    private volatile Throwable failure;

    private OperatorInterceptor(OperatorListener listener) {
        this.listener = listener;
    }

    /**
     * Runs an action whose operators on this thread go to the listener. Exceptions of the action and of the listener
     * reach the caller.
     *
     * @throws IllegalStateException if this thread is intercepted already, or an operator ran on a thread of the
     *     autograd engine in the meantime
     */
    public static void run(OperatorListener listener, Runnable action) {
        if (CURRENT.get() != null) {
            throw new IllegalStateException("the operators of this thread are recorded already");
        }
        RegisteredKernel.register();
        var interceptor = new OperatorInterceptor(listener);
        CURRENT.set(interceptor);
        OPEN.add(interceptor);
        torch.tls_set_dispatch_key_included(KEY, true);
        try {
            action.run();
        } catch (RuntimeException | Error e) {
            interceptor.rethrowFailure();
            throw e;
        } finally {
            torch.tls_set_dispatch_key_included(KEY, false);
            CURRENT.remove();
            OPEN.remove(interceptor);
        }
        interceptor.rethrowFailure();
    }

    /** Returns whether this thread's operators are being intercepted. */
    public static boolean isActive() {
        return CURRENT.get() != null && torch.tls_is_dispatch_key_included(KEY);
    }

    /**
     * Returns a number that identifies the interception in progress on this thread, or 0 if there is none. Code that
     * caches a tensor must include this number in the cache key, so that a recorded program computes the tensor itself.
     */
    public static long interceptionInProgress() {
        return isActive() ? CURRENT.get().number : 0;
    }

    /** Lets the listener of this thread refuse a read of elements on the host; does nothing without one. */
    static void refuseRead() {
        if (isActive()) {
            CURRENT.get().listener.refuseRead();
        }
    }

    /** Runs an action whose operators no listener sees, and returns its result. */
    static <T> T hidden(Supplier<T> action) {
        if (!isActive()) {
            return action.get();
        }
        torch.tls_set_dispatch_key_included(KEY, false);
        try {
            return action.get();
        } finally {
            torch.tls_set_dispatch_key_included(KEY, true);
        }
    }

    static Tensor[] call(JavaOperator operator, Tensor... inputs) {
        OperatorInterceptor interceptor = isActive() ? CURRENT.get() : null;
        if (interceptor == null) {
            return operator.compute(inputs);
        }
        torch.tls_set_dispatch_key_included(KEY, false);
        try {
            return interceptor.listener.called(operator, inputs);
        } finally {
            torch.tls_set_dispatch_key_included(KEY, true);
        }
    }

    private static void dispatch(long operator, long keys, long stack) {
        OperatorInterceptor interceptor = CURRENT.get();
        torch.tls_set_dispatch_key_included(KEY, false); // operators that a kernel calls are part of that operator
        try (var scope = MemoryScope.open()) {
            if (interceptor == null) { // a thread of the autograd engine, which inherits the dispatch keys
                OPEN.forEach(open -> open.failure = new IllegalStateException(
                        "an operator ran on another thread while operators were recorded; loss.backward() on a GPU"
                                + " does that, Backward.of(loss).run() does not"));
            }
            interceptor.listener.dispatched(new OperatorCall(operator, keys, stack));
        } catch (Throwable e) { // must not enter JNA: the caller in C++ throws when it finds None instead of a tensor
            if (interceptor != null && interceptor.failure == null) {
                interceptor.failure = e;
            }
            try (var scope = MemoryScope.open()) {
                var results = new IValueVector(new NativeAddress(stack));
                results.clear();
                for (int i = resultCount(operator); i > 0; i--) {
                    results.push_back(RegisteredKernel.NONE);
                }
            }
        } finally {
            torch.tls_set_dispatch_key_included(KEY, true);
        }
    }

    /** Returns the number of results that the caller of an operator takes from the stack. */
    private static int resultCount(long operator) {
        String schema = torch.toString(new OperatorHandle(new NativeAddress(operator)).schema())
                .getString();
        String results = schema.substring(schema.lastIndexOf(" -> ") + " -> ".length());
        return results.equals("()") ? 0 : results.split(",").length;
    }

    private void rethrowFailure() {
        if (failure instanceof Error error) {
            throw error;
        } else if (failure instanceof RuntimeException exception) {
            throw exception;
        } else if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }
}
