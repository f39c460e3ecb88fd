package cs336.torch;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.Reader;
import java.util.Objects;

/** A parser of strict JSON (RFC 8259), one document per stream. Unlike Gson's own, it rejects duplicate names. */
public final class StrictJson {
    private StrictJson() {}

    /**
     * Parses the document of a stream.
     *
     * @param source the name of the document in error messages
     * @throws IllegalArgumentException if it is not JSON, has a duplicate name in an object, or is followed by more
     *     text
     */
    public static JsonElement parse(Reader reader, String source) {
        Objects.requireNonNull(reader, "reader must not be null");
        var json = new JsonReader(reader);
        json.setStrictness(Strictness.STRICT);
        try {
            JsonElement root = element(json);
            if (json.peek() != JsonToken.END_DOCUMENT) {
                throw new IOException("unexpected text after the end of the document");
            }
            return root;
        } catch (IOException | JsonParseException e) {
            throw new IllegalArgumentException(source + " is not JSON: " + e.getMessage(), e);
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
                return JsonParser.parseReader(json);
            }
            default -> throw new IOException("unexpected token " + json.peek());
        }
    }
}
