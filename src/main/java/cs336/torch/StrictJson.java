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

/** JSON as RFC 8259 has it, one document to a stream. Gson by itself lets a name occur twice, and the last one win. */
public final class StrictJson {
    private StrictJson() {}

    /**
     * Reads the document of this stream.
     *
     * @param source what error messages call it
     * @throws IllegalArgumentException if it is not JSON, has a name twice in one object, or is followed by something
     *     else
     */
    public static JsonElement parse(Reader reader, String source) {
        JsonReader json = new JsonReader(reader);
        json.setStrictness(Strictness.STRICT);
        try {
            JsonElement root = element(json);
            if (json.peek() != JsonToken.END_DOCUMENT) {
                throw new IOException("there is more after the end of the document");
            }
            return root;
        } catch (IOException | JsonParseException e) {
            throw new IllegalArgumentException(source + " is not JSON: " + e.getMessage(), e);
        }
    }

    private static JsonElement element(JsonReader json) throws IOException {
        switch (json.peek()) {
            case BEGIN_OBJECT -> {
                JsonObject object = new JsonObject();
                json.beginObject();
                while (json.hasNext()) {
                    String name = json.nextName();
                    if (object.has(name)) {
                        throw new IOException(
                                "the name '" + name + "' occurs twice in one object at " + json.getPath());
                    }
                    object.add(name, element(json));
                }
                json.endObject();
                return object;
            }
            case BEGIN_ARRAY -> {
                JsonArray array = new JsonArray();
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
            default -> throw new IOException("there is no document");
        }
    }
}
