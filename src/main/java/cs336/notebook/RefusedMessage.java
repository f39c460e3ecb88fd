package cs336.notebook;

/** The reason why a message of a Jupyter client is not handled. */
final class RefusedMessage extends Exception {
    private static final long serialVersionUID = 1L;

    RefusedMessage(String reason) {
        super(reason, null, false, false);
    }
}
