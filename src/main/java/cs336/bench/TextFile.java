package cs336.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** A reader of text files whose errors name the file and the line. */
public final class TextFile {
    private TextFile() {}

    /**
     * Returns the text of a file in UTF-8.
     *
     * @throws IOException if the file cannot be read or is not UTF-8; the message names the file and the line
     */
    public static String read(Path file) throws IOException {
        requireFile(file);
        byte[] bytes = Files.readAllBytes(file);
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(bytes))
                    .toString();
        } catch (CharacterCodingException e) {
            throw new IOException("%s, line %d: the text is not UTF-8".formatted(file, lineOfError(bytes)), e);
        }
    }

    /**
     * Checks that a path is not a folder, because the error of a read does not name it.
     *
     * @throws IOException if it is a folder
     */
    public static void requireFile(Path file) throws IOException {
        if (Files.isDirectory(file)) {
            throw new IOException(file + " is a folder, not a file");
        }
    }

    private static int lineOfError(byte[] bytes) {
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        ByteBuffer in = ByteBuffer.wrap(bytes);
        decoder.decode(in, CharBuffer.allocate(bytes.length), true);
        int line = 1;
        for (int i = 0; i < in.position(); i++) {
            line += bytes[i] == '\n' ? 1 : 0;
        }
        return line;
    }
}
