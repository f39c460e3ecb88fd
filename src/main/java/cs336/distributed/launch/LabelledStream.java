package cs336.distributed.launch;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A stream that prefixes each line with a label and writes it in one piece, so that lines of several processes do not
 * mix.
 */
final class LabelledStream extends OutputStream {
    private static final int MOST_BYTES = 1 << 14;

    private final OutputStream to;
    private final byte[] label;
    private byte[] line = new byte[128];
    private int length;

    private LabelledStream(String label, OutputStream to) {
        this.label = label.getBytes(StandardCharsets.UTF_8);
        this.to = to;
    }

    /** Returns a print stream that writes labelled lines to another one. */
    static PrintStream of(String label, PrintStream to) {
        return new PrintStream(new LabelledStream(label, to), true, StandardCharsets.UTF_8);
    }

    @Override
    public synchronized void write(int b) throws IOException {
        if (length == 0) {
            append(label);
        }
        append(new byte[] {(byte) b});
        if (b == '\n') {
            writeLine();
        } else if (length >= MOST_BYTES) {
            append(new byte[] {'\n'}); // a longer line is written in pieces
            writeLine();
        }
    }

    private void append(byte[] bytes) {
        if (length + bytes.length > line.length) {
            line = Arrays.copyOf(line, 2 * (length + bytes.length));
        }
        System.arraycopy(bytes, 0, line, length, bytes.length);
        length += bytes.length;
    }

    private void writeLine() throws IOException {
        to.write(line, 0, length);
        to.flush();
        length = 0;
    }

    /** Writes an unfinished last line; the underlying stream stays open. */
    @Override
    public synchronized void close() throws IOException {
        if (length > 0) {
            writeLine();
        }
    }
}
