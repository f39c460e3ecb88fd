package cs336.writeup;

/** Something in a Markdown text that cannot be shown. */
public final class MarkdownException extends IllegalArgumentException {
    private final int line;

    MarkdownException(int line, String message) {
        super(message);
        this.line = line;
    }

    /** The line of the text, from 1; 0 where it is not known. */
    public int line() {
        return line;
    }
}
