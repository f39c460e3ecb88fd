package cs336.torch;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.TypeAdapter;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.FilterReader;
import java.io.IOException;
import java.io.Reader;
import java.util.Objects;

/**
 * A parser of strict JSON (RFC 8259), one document per stream. Unlike Gson's own, it rejects duplicate names. It needs
 * only Gson 2.8.5, which is the version in IJava; strictness is a setting of Gson since 2.11 only.
 */
public final class StrictJson {
    private static final TypeAdapter<JsonElement> VALUES = new Gson().getAdapter(JsonElement.class);

    /** The beginning of messages of Gson about its API; the position follows. */
    private static final String ADVICE = "^Use JsonReader\\S* to accept malformed JSON";

    private StrictJson() {}

    /** A reader of JSON that rejects what Gson accepts although it is not lenient. */
    private static final class StrictReader extends FilterReader {
        private boolean inString;
        private boolean escaped;
        private char last;

        StrictReader(Reader json) {
            super(json);
        }

        @Override
        public int read(char[] buffer, int offset, int count) throws IOException {
            int read = super.read(buffer, offset, count);
            for (int i = offset; i < offset + read; i++) {
                require(buffer[i]);
                last = buffer[i];
            }
            return read;
        }

        private void require(char c) throws IOException {
            if (!inString) {
                if (Character.isUpperCase(c) && (c != 'E' || Character.isLetter(last))) {
                    throw new IOException("unexpected character '" + c + "' outside of a string");
                }
                inString = c == '"';
            } else if (c < ' ') {
                throw new IOException("a control character in a string is not escaped");
            } else if (escaped) {
                if ("\"\\/bfnrtu".indexOf(c) < 0) {
                    throw new IOException("unknown escape \\" + c);
                }
                escaped = false;
            } else {
                escaped = c == '\\';
                inString = c != '"';
            }
        }
    }

    /**
     * Parses the document of a stream.
     *
     * @param source the name of the document in error messages
     * @throws IllegalArgumentException if it is not JSON, has a duplicate name in an object, or is followed by more
     *     text
     */
    public static JsonElement parse(Reader reader, String source) {
        Objects.requireNonNull(reader, "reader must not be null");
        var json = new JsonReader(new StrictReader(reader));
        try {
            JsonElement root = element(json);
            if (json.peek() != JsonToken.END_DOCUMENT) {
                throw new IOException("unexpected text after the end of the document");
            }
            return root;
        } catch (IOException | JsonParseException e) {
            String reason = String.valueOf(e.getMessage()).replaceFirst(ADVICE, "malformed text");
            throw new IllegalArgumentException(source + " is not JSON: " + reason, e);
        }
    }

    private static JsonElement element(JsonReader json) throws IOException {
        switch (json.peek()) {
            case BEGIN_OBJECT -> {
                var object = new JsonObject();
                json.beginObject();
                while (json.hasNext()) {
                    String name = json.nextName();
                    if (object.has(name)) {
                        throw new IOException("duplicate name '" + name + "' at " + json.getPath());
                    }
                    object.add(name, element(json));
                }
                json.endObject();
                return object;
            }
            case BEGIN_ARRAY -> {
                var array = new JsonArray();
                json.beginArray();
                while (json.hasNext()) {
                    array.add(element(json));
                }
                json.endArray();
                return array;
            }
            case STRING, NUMBER, BOOLEAN, NULL -> {
                return VALUES.read(json);
            }
            default -> throw new IOException("unexpected token " + json.peek());
        }
    }
}
