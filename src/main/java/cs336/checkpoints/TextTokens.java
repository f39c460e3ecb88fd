package cs336.checkpoints;

import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.bench.WholeFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.CRC32C;

/**
 * The tokens of the option {@code --text}: the bytes of a file.
 *
 * @param tokens one token id per byte, from 0 to 255
 * @param description the number of bytes and their checksum
 */
public record TextTokens(int[] tokens, String description) {
    private static final int BYTES = 256;
    private static final int MAX_TEXT = Integer.MAX_VALUE - 8; // elements of the largest array

    /**
     * Reads a text on which a model is to be trained.
     *
     * @throws IllegalArgumentException if the model has fewer than 256 tokens, or the file does not have more bytes
     *     than its context, or more than an array can hold; the message names the option
     * @throws IOException if the file cannot be read
     */
    public static TextTokens read(Path text, TransformerConfig config) throws IOException {
        if (config.vocabSize() < BYTES) {
            throw new IllegalArgumentException(
                    "--vocab must be at least " + BYTES + ", one for each value of a byte, not " + config.vocabSize());
        }
        ArgumentCheck.notEmpty("--text", text);
        WholeFile.requireFile(text);
        if (Files.exists(text) && Files.size(text) > MAX_TEXT) {
            throw new IllegalArgumentException(
                    "--text %s must have at most %,d bytes, not %,d; take its beginning, for example with head -c 1G"
                            .formatted(text, MAX_TEXT, Files.size(text)));
        }
        byte[] bytes = Files.readAllBytes(text);
        if (bytes.length <= config.contextLength()) {
            throw new IllegalArgumentException("--text " + text + " must have more than --context "
                    + config.contextLength() + " bytes, not " + bytes.length);
        }
        int[] tokens = new int[bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            tokens[i] = Byte.toUnsignedInt(bytes[i]);
        }
        var checksum = new CRC32C();
        checksum.update(bytes);
        String description =
                "a text of " + bytes.length + " bytes with CRC-32C " + Long.toHexString(checksum.getValue());
        return new TextTokens(tokens, description);
    }
}
