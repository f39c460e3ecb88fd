package cs336.bench;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.Consumer;

/** The lines of a stream, read with bounded memory: a line that is too long arrives in pieces. */
final class BoundedLines {
    private static final int BUFFER_BYTES = 8192;
    private static final int MOST_CHARACTER_BYTES = 4;

    private final Consumer<String> lines;
    private final int mostBytes;
    private final byte[] longPrefix;
    private final int mostBytesWithPrefix;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private int limit;
    private boolean afterReturn;

    /**
     * Creates a reader.
     *
     * @param lines receives each line, or piece of a line, without its end
     * @param mostBytes largest length of a line
     * @param longPrefix the start of lines that may be longer
     * @param mostBytesWithPrefix largest length of these
     */
    BoundedLines(Consumer<String> lines, int mostBytes, String longPrefix, int mostBytesWithPrefix) {
        this.lines = lines;
        this.mostBytes = mostBytes;
        limit = mostBytes;
        this.longPrefix = longPrefix.getBytes(StandardCharsets.UTF_8);
        this.mostBytesWithPrefix = mostBytesWithPrefix;
    }

    /** Reads the stream to its end. */
    void read(InputStream from) throws IOException {
        byte[] buffer = new byte[BUFFER_BYTES];
        for (int n; (n = from.read(buffer)) >= 0; ) {
            for (int i = 0; i < n; i++) {
                add(buffer[i]);
            }
        }
        if (line.size() > 0) {
            emit();
        }
    }

    private void add(byte next) {
        if (next == '\n' && afterReturn) {
            afterReturn = false;
            return;
        }
        afterReturn = next == '\r';
        if (next == '\n' || next == '\r') {
            emit();
            return;
        }
        boolean startsCharacter = (next & 0xC0) != 0x80; // in UTF-8
        if (line.size() >= limit && (startsCharacter || line.size() >= limit + MOST_CHARACTER_BYTES)) {
            emit();
        }
        line.write(next);
        if (line.size() == longPrefix.length && Arrays.equals(line.toByteArray(), longPrefix)) {
            limit = mostBytesWithPrefix;
        }
    }

    private void emit() {
        lines.accept(line.toString(StandardCharsets.UTF_8));
        line.reset();
        limit = mostBytes;
    }
}
