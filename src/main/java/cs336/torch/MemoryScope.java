package cs336.torch;

import java.lang.reflect.Field;
import java.util.Objects;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerScope;

/**
 * A scope that frees, when it closes, every native object that its thread has created since it opened:
 *
 * <pre>{@code
 * try (var scope = MemoryScope.open()) {
 *     Tensor loss = Losses.crossEntropy(model.forward(inputs), targets);
 *     loss.backward();
 *     return loss.item().toDouble();
 * }
 * }</pre>
 *
 * <p>Tensor storage is outside the Java heap. The garbage collector does not see its size and runs too late, so a loop
 * without a scope runs out of memory. Objects that must outlive the scope leave it through {@link #escape}, or through
 * {@link #keep}, as parameters do. Native code holds its own references, for example to tensors saved for a backward
 * pass. Scopes nest, and each thread has its own.
 */
public final class MemoryScope implements AutoCloseable {
    static {
        Torch.load();
    }

    private static final Field POINTERS = pointers();

    private final PointerScope scope = new PointerScope();
    private final Thread owner = Thread.currentThread();

    private MemoryScope() {}

    /** Opens a scope on this thread. */
    public static MemoryScope open() {
        return new MemoryScope();
    }

    /**
     * Moves an object of this scope to the enclosing scope. If there is none, the garbage collector frees it. An object
     * of another scope, or of none, stays there.
     *
     * <p>An element of a native container, such as {@code torch.max(x, 1, false).get0()}, belongs to the container. A
     * copy of the handle, {@code new Tensor(element)}, can leave the scope.
     *
     * @return the same object
     */
    public <P extends Pointer> P escape(P pointer) {
        Objects.requireNonNull(pointer, "pointer must not be null");
        PointerScope enclosing = enclosing();
        if (enclosing == null) {
            return keep(pointer);
        }
        if (!holds(scope, pointer)) {
            return pointer;
        }
        enclosing.attach(pointer);
        scope.detach(pointer);
        return pointer;
    }

    /**
     * Moves several objects of this scope to the enclosing scope; skips null.
     *
     * @return the same array
     */
    public <P extends Pointer> P[] escapeAll(P[] pointers) {
        Objects.requireNonNull(pointers, "pointers must not be null");
        for (P pointer : pointers) {
            if (pointer != null) {
                escape(pointer);
            }
        }
        return pointers;
    }

    /**
     * Removes a new object from all scopes. It lives until it is closed explicitly or is unreachable. Used for
     * parameters, optimizer state and other objects that live as long as their owner.
     *
     * @return the same object
     */
    public static <P extends Pointer> P keep(P pointer) {
        for (var scopes = PointerScope.getScopeIterator(); scopes != null && scopes.hasNext(); ) {
            PointerScope next = scopes.next();
            if (holds(next, pointer)) {
                // Detaching releases the scope's reference, and releasing the last reference frees the object.
                pointer.retainReference();
                next.detach(pointer);
                return pointer; // no other scope holds it
            }
        }
        if (pointer.referenceCount() == 0) { // not kept before
            pointer.retainReference();
        }
        return pointer;
    }

    /** Returns whether a scope frees this object. */
    private static boolean holds(PointerScope scope, Pointer pointer) {
        try {
            for (Object held : (Iterable<?>) POINTERS.get(scope)) {
                if (held == pointer) {
                    return true;
                }
            }
            return false;
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e); // it was made accessible
        }
    }

    /** Returns the field with the objects of a JavaCPP scope, for which it has no method. */
    private static Field pointers() {
        try {
            Field field = PointerScope.class.getDeclaredField("pointerStack");
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException e) {
            throw new IllegalStateException(e); // the version of JavaCPP has it
        }
    }

    /**
     * Frees the objects of this scope.
     *
     * @throws IllegalStateException on another thread than that which opened the scope
     */
    @Override
    public void close() {
        if (Thread.currentThread() != owner) {
            throw new IllegalStateException("a memory scope must be closed on the thread that opened it, "
                    + owner.getName() + ", not on " + Thread.currentThread().getName());
        }
        scope.close();
    }

    /** Returns the next outer scope of this thread, or null. */
    private PointerScope enclosing() {
        boolean passedThis = false;
        for (var scopes = PointerScope.getScopeIterator(); scopes != null && scopes.hasNext(); ) {
            PointerScope next = scopes.next();
            if (passedThis) {
                return next;
            }
            passedThis = next == scope;
        }
        return null;
    }
}
