package cs336.torch;

import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerScope;

/**
 * Frees, when it closes, every native object this thread made since it opened. The one memory idiom of this project:
 *
 * <pre>{@code
 * try (var scope = MemoryScope.open()) {
 *     Tensor loss = Losses.crossEntropy(model.forward(inputs), targets);
 *     loss.backward();
 *     return loss.item().toDouble();
 * }
 * }</pre>
 *
 * <p>A tensor's storage is not on the Java heap, so the garbage collector does not see how big it is and comes too
 * late; a loop without a scope runs out of memory. What must outlive the scope goes out with {@link #escape}. What
 * native code still needs, such as tensors saved for a backward pass, it keeps alive by itself. Scopes nest; each
 * thread has its own.
 */
public final class MemoryScope implements AutoCloseable {
    static {
        Torch.load();
    }

    private final PointerScope scope = new PointerScope();

    private MemoryScope() {}

    /** Opens a scope on this thread. */
    public static MemoryScope open() {
        return new MemoryScope();
    }

    /**
     * Hands an object of this scope to the scope around it, or, where there is none, to the garbage collector.
     *
     * @return the same object
     */
    public <P extends Pointer> P escape(P pointer) {
        PointerScope around = around();
        if (around == null) {
            return keep(pointer);
        }
        around.attach(pointer);
        scope.detach(pointer);
        return pointer;
    }

    /**
     * Takes an object that was just made out of its scope: it lives until it is closed by hand or no longer reachable.
     * For parameters, optimizer state and whatever else lives as long as its owner.
     *
     * @return the same object
     */
    public static <P extends Pointer> P keep(P pointer) {
        // Leaving a scope gives a reference back, and the last one frees the object.
        pointer.retainReference();
        PointerScope innermost = PointerScope.getInnerScope();
        if (innermost != null) {
            innermost.detach(pointer);
        }
        return pointer;
    }

    @Override
    public void close() {
        scope.close();
    }

    /** The scope of this thread just outside this one, or null. */
    private PointerScope around() {
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
