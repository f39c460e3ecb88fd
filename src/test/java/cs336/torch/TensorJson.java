package cs336.torch;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.Reader;
import java.io.StringReader;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * A JSON document that contains tensors: the reader of the reference vectors in
 * {@code src/test/resources/cs336/reference}, against which any implementation can be checked.
 *
 * <p>A tensor is an object with exactly these members:
 *
 * <pre>{@code
 * {"dtype": "float64", "shape": [2, 3], "data": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
 * }</pre>
 *
 * <p>{@code dtype} is one of {@code float64, float32, bfloat16, float16, int64, int32, bool}. {@code shape} lists the
 * sizes and is {@code []} for a scalar. {@code data} lists all elements in row-major order without nesting: decimal
 * numbers, which are rounded to the nearest element of the dtype, or {@code true} and {@code false} for {@code bool}.
 * JSON has no infinities, so these are the strings {@code "Infinity"}, {@code "-Infinity"} and {@code "NaN"}. The rest
 * of the document is any JSON.
 *
 * <pre>{@code
 * TensorJson reference = TensorJson.parse(reader, "softmax.json");
 * Tensor ours = torch.softmax(reference.get("input").tensor(), -1);
 * double error = ours.sub(reference.get("output").tensor()).abs().max().item_double();
 * }</pre>
 *
 * <p>An instance is one node of the document. A wrong node raises an {@link IllegalArgumentException} with its path, as
 * in {@code softmax.json: input.shape[1] is -3; …}.
 */
public final class TensorJson {
    private final JsonElement element;
    private final String source;
    private final String path;

    private TensorJson(JsonElement element, String source, String path) {
        this.element = element;
        this.source = source;
        this.path = path;
    }

    /**
     * Parses a string.
     *
     * @throws IllegalArgumentException if it is not strict JSON
     */
    public static TensorJson parse(String json) {
        return parse(new StringReader(json), "JSON");
    }

    /**
     * Parses the characters of a reader and leaves it open.
     *
     * @param source the name of the document in error messages
     * @throws IllegalArgumentException if it is not strict JSON
     */
    public static TensorJson parse(Reader reader, String source) {
        return new TensorJson(StrictJson.parse(reader, source), source, "");
    }

    /** Returns the member of this object with the given name. */
    public TensorJson get(String name) {
        JsonElement member = object().get(name);
        if (member == null) {
            throw error("has no member '" + name + "'; it has " + object().keySet());
        }
        return new TensorJson(member, source, path.isEmpty() ? name : path + "." + name);
    }

    /** Returns whether this is an object with such a member. */
    public boolean has(String name) {
        return element.isJsonObject() && element.getAsJsonObject().has(name);
    }

    /** Returns the items of this array. */
    public List<TensorJson> list() {
        List<TensorJson> list = new ArrayList<>();
        for (JsonElement item : array()) {
            list.add(new TensorJson(item, source, path + "[" + list.size() + "]"));
        }
        return list;
    }

    /** Returns this number. */
    public double number() {
        if (element.isJsonPrimitive() && element.getAsJsonPrimitive().isNumber()) {
            return element.getAsDouble();
        }
        throw error("is not a number");
    }

    /** Returns this 64-bit integer. */
    public long integer() {
        number();
        try {
            return new BigDecimal(element.getAsString()).longValueExact();
        } catch (ArithmeticException e) {
            throw error("is " + element + ", not a 64-bit integer");
        }
    }

    /** Returns this string. */
    public String text() {
        if (element.isJsonPrimitive() && element.getAsJsonPrimitive().isString()) {
            return element.getAsString();
        }
        throw error("is not a string");
    }

    /** Returns the members of this object, which are all tensors, by name in the document's order. */
    public Map<String, Tensor> tensors() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (String name : object().keySet()) {
            tensors.put(name, get(name).tensor());
        }
        return tensors;
    }

    /** Returns this tensor, on the CPU, in the caller's memory scope. */
    public Tensor tensor() {
        for (String name : object().keySet()) {
            if (!List.of("dtype", "shape", "data").contains(name)) {
                throw error("is not a tensor: it has a member '" + name + "' in addition to dtype, shape and data");
            }
        }
        DType dtype = get("dtype").dtype();
        long[] shape = get("shape").shape();
        TensorJson data = get("data");
        int count = data.array().size();
        long expected = 1;
        for (long size : shape) {
            // Sizes are below 2³¹, so one multiplication cannot overflow. No array has 2³¹ items: that count is enough.
            expected = Math.min(expected * size, 1L << 31);
        }
        if (count != expected) {
            throw data.error(
                    "has " + count + " elements, but the shape " + Arrays.toString(shape) + " has " + expected);
        }
        try (var scope = MemoryScope.open()) {
            return scope.escape(data.elements(dtype).reshape(shape));
        }
    }

    private DType dtype() {
        String name = text();
        for (DType dtype : DType.values()) {
            if (name(dtype).equals(name)) {
                return dtype;
            }
        }
        throw error("is '" + name + "'; known: "
                + String.join(
                        ", ",
                        Arrays.stream(DType.values()).map(TensorJson::name).toList()));
    }

    private static String name(DType dtype) {
        return dtype.name().toLowerCase(Locale.ROOT);
    }

    private long[] shape() {
        List<TensorJson> sizes = list();
        long[] shape = new long[sizes.size()];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = sizes.get(i).integer();
            if (shape[i] < 0 || shape[i] > Integer.MAX_VALUE) {
                throw sizes.get(i).error("is " + shape[i] + "; a size is from 0 to " + Integer.MAX_VALUE);
            }
        }
        return shape;
    }

    /** Returns the items of this array as a tensor, [count]. */
    private Tensor elements(DType dtype) {
        int count = array().size();
        return switch (dtype) {
            case FLOAT64 -> {
                double[] values = new double[count];
                for (int i = 0; i < count; i++) {
                    values[i] = finite(i, Double.parseDouble(decimal(i)));
                }
                yield Tensor.create(values);
            }
            case FLOAT32, BFLOAT16, FLOAT16 -> {
                float[] values = new float[count];
                for (int i = 0; i < count; i++) {
                    values[i] = (float) finite(i, Float.parseFloat(decimal(i)));
                }
                Tensor tensor = Tensor.create(values);
                yield dtype == DType.FLOAT32 ? tensor : tensor.to(dtype.scalarType());
            }
            case INT64 -> {
                long[] values = new long[count];
                for (int i = 0; i < count; i++) {
                    values[i] = item(i).integer();
                }
                yield Tensor.create(values);
            }
            case INT32 -> {
                int[] values = new int[count];
                for (int i = 0; i < count; i++) {
                    long value = item(i).integer();
                    values[i] = (int) value;
                    if (values[i] != value) {
                        throw item(i).error("is " + value + ", out of range for int32");
                    }
                }
                yield Tensor.create(values);
            }
            case BOOL -> {
                boolean[] values = new boolean[count];
                for (int i = 0; i < count; i++) {
                    if (!(array().get(i) instanceof JsonPrimitive value) || !value.isBoolean()) {
                        throw item(i).error("is neither true nor false");
                    }
                    values[i] = value.getAsBoolean();
                }
                yield Tensor.create(values);
            }
            case UINT8, UINT64, COMPLEX64 -> throw error("has dtype " + dtype + ", which has no JSON form");
        };
    }

    private TensorJson item(int index) {
        return new TensorJson(array().get(index), source, path + "[" + index + "]");
    }

    private String decimal(int index) {
        JsonElement item = array().get(index);
        if (item instanceof JsonPrimitive value) {
            String text = value.getAsString();
            if (value.isNumber()
                    || value.isString()
                            && List.of("NaN", "Infinity", "-Infinity").contains(text)) {
                return text;
            }
        }
        throw item(index).error("is " + item + ", not a number");
    }

    private double finite(int index, double value) {
        if (Double.isInfinite(value) && !array().get(index).getAsString().endsWith("Infinity")) {
            throw item(index).error("is " + array().get(index) + ", out of range for its dtype");
        }
        return value;
    }

    private JsonObject object() {
        if (element.isJsonObject()) {
            return element.getAsJsonObject();
        }
        throw error("is not an object");
    }

    private JsonArray array() {
        if (element.isJsonArray()) {
            return element.getAsJsonArray();
        }
        throw error("is not an array");
    }

    private IllegalArgumentException error(String message) {
        return new IllegalArgumentException(source + ": " + (path.isEmpty() ? "the document" : path) + " " + message);
    }
}
