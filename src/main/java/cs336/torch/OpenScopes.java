package cs336.torch;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The open scopes of one kind on each thread. A scope that sets a mode of its thread and restores the previous one must
 * be closed on the same thread and before the scopes around it. Otherwise the mode would stay set.
 */
final class OpenScopes {
    private final ThreadLocal<Deque<Object>> open = ThreadLocal.withInitial(ArrayDeque::new);
    private final String kind;

    /** @param kind name of the scopes in error messages */
    OpenScopes(String kind) {
        this.kind = kind;
    }

    /** Adds a scope that was opened on this thread. */
    void add(Object scope) {
        open.get().push(scope);
    }

    /**
     * Removes a scope that is about to be closed.
     *
     * @throws IllegalStateException if it is not the last one that was opened on this thread
     */
    void remove(Object scope) {
        Deque<Object> scopes = open.get();
        if (scopes.peek() != scope) {
            throw new IllegalStateException(kind
                    + (scopes.contains(scope)
                            ? " must be closed before the scopes around it: scopes inside it are still open"
                            : " must be closed on the thread that opened it, not on "
                                    + Thread.currentThread().getName()));
        }
        scopes.pop();
    }
}
