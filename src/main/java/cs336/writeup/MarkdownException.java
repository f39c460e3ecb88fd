package cs336.writeup;

/** An element of a Markdown text that cannot be rendered. */
public final class MarkdownException extends IllegalArgumentException {
    private final int line;

    MarkdownException(int line, String message) {
        super(message);
        this.line = line;
    }

    /** Returns the line of the text, from 1; 0 if unknown. */
    public int line() {
        return line;
    }
}
