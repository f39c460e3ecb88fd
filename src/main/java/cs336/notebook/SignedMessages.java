package cs336.notebook;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.KernelConnectionProperties;
import io.github.spencerpark.jupyter.messages.HMACGenerator;
import io.github.spencerpark.jupyter.messages.Header;
import io.github.spencerpark.jupyter.messages.KernelTimestamp;
import io.github.spencerpark.jupyter.messages.Message;
import io.github.spencerpark.jupyter.messages.MessageType;
import io.github.spencerpark.jupyter.messages.adapters.HeaderAdapter;
import io.github.spencerpark.jupyter.messages.adapters.HistoryRequestAdapter;
import io.github.spencerpark.jupyter.messages.adapters.KernelTimestampAdapter;
import io.github.spencerpark.jupyter.messages.adapters.MessageTypeAdapter;
import io.github.spencerpark.jupyter.messages.request.HistoryRequest;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A decoder of Jupyter's wire protocol. It rejects messages with a wrong signature before it decodes them, and
 * repetitions of a signed message.
 */
final class SignedMessages {
    private static final byte[] DELIMITER = "<IDS|MSG>".getBytes(StandardCharsets.US_ASCII);

    /** The number of frames that follow the signature: header, parent header, metadata, content. */
    private static final int SIGNED_FRAMES = 4;

    /** The number of signatures that are remembered, about 50 bytes each. */
    private static final int MOST_REMEMBERED = 1 << 20;

    private static final Gson GSON = new GsonBuilder()
            .registerTypeAdapter(KernelTimestamp.class, KernelTimestampAdapter.INSTANCE)
            .registerTypeAdapter(Header.class, HeaderAdapter.INSTANCE)
            .registerTypeAdapter(MessageType.class, MessageTypeAdapter.INSTANCE)
            .registerTypeAdapter(HistoryRequest.class, HistoryRequestAdapter.INSTANCE)
            .create();

    private final HMACGenerator generator;
    private final boolean signed;
    private final Set<Long> accepted = new LinkedHashSet<>();

    /** Creates a decoder for one connection. An empty key means that messages are not signed. */
    SignedMessages(KernelConnectionProperties properties) throws GeneralSecurityException {
        generator = properties.createHMACGenerator();
        signed = properties.getKey() != null && !properties.getKey().isEmpty();
    }

    /**
     * Decodes a message from its frames.
     *
     * @throws RefusedMessage if the message is malformed, is not signed with the key of the connection, or was decoded
     *     before
     */
    Message<?> decode(List<byte[]> frames) throws RefusedMessage {
        int delimiter = 0;
        while (delimiter < frames.size() && !Arrays.equals(frames.get(delimiter), DELIMITER)) {
            delimiter++;
        }
        int first = delimiter + 2;
        if (frames.size() < first + SIGNED_FRAMES) {
            throw new RefusedMessage("it has too few frames");
        }
        List<byte[]> parts = frames.subList(first, first + SIGNED_FRAMES);
        authenticate(frames.get(first - 1), parts);
        try {
            return decode(frames.subList(0, delimiter), parts, frames.subList(first + SIGNED_FRAMES, frames.size()));
        } catch (RuntimeException | StackOverflowError e) {
            throw new RefusedMessage("it is not a message of Jupyter's protocol: " + e);
        }
    }

    private synchronized void authenticate(byte[] signature, List<byte[]> parts) throws RefusedMessage {
        if (!signed) {
            return;
        }
        byte[] expected =
                generator.calculateSignature(parts.toArray(byte[][]::new)).getBytes(StandardCharsets.US_ASCII);
        // This comparison takes as long for wrong signatures as for the right one.
        if (!MessageDigest.isEqual(expected, signature)) {
            throw new RefusedMessage("its signature is wrong");
        }
        if (!accepted.add(ByteBuffer.wrap(digest(expected)).getLong())) {
            throw new RefusedMessage("it was received before");
        }
        if (accepted.size() > MOST_REMEMBERED) {
            accepted.remove(accepted.iterator().next());
        }
    }

    private static byte[] digest(byte[] hex) {
        var digest = new byte[Long.BYTES];
        for (int i = 0; i < digest.length; i++) {
            digest[i] = (byte) (Character.digit(hex[2 * i], 16) << 4 | Character.digit(hex[2 * i + 1], 16));
        }
        return digest;
    }

    private static Message<?> decode(List<byte[]> identities, List<byte[]> parts, List<byte[]> buffers)
            throws RefusedMessage {
        Header<?> header = GSON.fromJson(object(parts.get(0), "header"), Header.class);
        JsonObject parentJson = object(parts.get(1), "parent header");
        Header<?> parent = parentJson.size() == 0 ? null : GSON.fromJson(parentJson, Header.class);
        @SuppressWarnings("unchecked")
        Map<String, Object> metadata = GSON.fromJson(object(parts.get(2), "metadata"), Map.class);
        if (header.getType() == null) {
            throw new RefusedMessage("its header has no msg_type");
        }
        Object content =
                GSON.fromJson(object(parts.get(3), "content"), header.getType().getContentType());
        return message(identities, header, parent, metadata, content, buffers);
    }

    @SuppressWarnings("unchecked")
    private static <T> Message<T> message(
            List<byte[]> identities,
            Header<T> header,
            Header<?> parent,
            Map<String, Object> metadata,
            Object content,
            List<byte[]> buffers) {
        return new Message<>(List.copyOf(identities), header, parent, metadata, (T) content, List.copyOf(buffers));
    }

    private static JsonObject object(byte[] utf8, String part) throws RefusedMessage {
        JsonObject object = GSON.fromJson(new String(utf8, StandardCharsets.UTF_8), JsonObject.class);
        if (object == null) {
            throw new RefusedMessage("its " + part + " is empty");
        }
        return object;
    }

    /** The reason why a message of a Jupyter client is not handled. */
    static final class RefusedMessage extends Exception {
        private static final long serialVersionUID = 1L;

        RefusedMessage(String reason) {
            super(reason, null, false, false);
        }
    }
}
