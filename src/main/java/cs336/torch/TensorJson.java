package cs336.torch;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.io.Reader;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A JSON document with tensors in it: how this library is checked against any other implementation, in any language.
 *
 * <p>A tensor is an object with exactly these members:
 *
 * <pre>{@code
 * {"dtype": "float64", "shape": [2, 3], "data": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
 * }</pre>
 *
 * <p>{@code dtype} is one of {@code float64, float32, bfloat16, float16, int64, int32, bool}; {@code shape} lists the
 * sizes, and is {@code []} for a single number; {@code data} lists all elements in row-major order (the last index runs
 * fastest), without nesting. Numbers are decimal. Those written here are the shortest that read back as the same
 * element; one that is read becomes the nearest element of its dtype. JSON has no infinities: they stand as the texts
 * {@code "Infinity"}, {@code "-Infinity"} and {@code "NaN"}. Elements of {@code bool} are {@code true} and
 * {@code false}. Around the tensors stands any JSON. To check an operation of this library against another, write its
 * inputs and results from there, and:
 *
 * <pre>{@code
 * TensorJson reference = TensorJson.read(Path.of("softmax.json"));
 * Tensor ours = torch.softmax(reference.get("input").tensor(), -1);
 * double error = ours.sub(reference.get("output").tensor()).abs().max().item_double();
 * }</pre>
 *
 * <p>An object of this class is one place in a document. Whatever is wrong there is reported as
 * {@link IllegalArgumentException} with the path to it, as in {@code softmax.json: input.shape[1] is -3; …}.
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
     * Reads a file.
     *
     * @throws IOException if it cannot be read
     * @throws IllegalArgumentException if it is not strict JSON
     */
    public static TensorJson read(Path file) throws IOException {
        try (Reader reader = Files.newBufferedReader(file)) {
            return parse(reader, file.getFileName().toString());
        }
    }

    /**
     * Reads a text.
     *
     * @throws IllegalArgumentException if it is not strict JSON
     */
    public static TensorJson parse(String json) {
        return parse(new StringReader(json), "JSON");
    }

    /**
     * Reads from a stream of characters, which stays open.
     *
     * @param source what error messages call it
     * @throws IllegalArgumentException if it is not strict JSON
     */
    public static TensorJson parse(Reader reader, String source) {
        return new TensorJson(StrictJson.parse(reader, source), source, "");
    }

    /** The member of this object with that name. */
    public TensorJson get(String name) {
        JsonElement member = object().get(name);
        if (member == null) {
            throw error("has no member '" + name + "'; it has " + object().keySet());
        }
        return new TensorJson(member, source, path.isEmpty() ? name : path + "." + name);
    }

    /** Whether this is an object with such a member. */
    public boolean has(String name) {
        return element.isJsonObject() && element.getAsJsonObject().has(name);
    }

    /** The elements of this array. */
    public List<TensorJson> list() {
        List<TensorJson> list = new ArrayList<>();
        for (JsonElement item : array()) {
            list.add(new TensorJson(item, source, path + "[" + list.size() + "]"));
        }
        return list;
    }

    /** This number. */
    public double number() {
        if (element.isJsonPrimitive() && element.getAsJsonPrimitive().isNumber()) {
            return element.getAsDouble();
        }
        throw error("is not a number");
    }

    /** This whole number. */
    public long integer() {
        number();
        try {
            return new BigDecimal(element.getAsString()).longValueExact();
        } catch (ArithmeticException e) {
            throw error("is " + element + ", not a whole number of 64 bits");
        }
    }

    /** This text. */
    public String text() {
        if (element.isJsonPrimitive() && element.getAsJsonPrimitive().isString()) {
            return element.getAsString();
        }
        throw error("is not a text");
    }

    /** The tensors of this object, by name, in the document's order. Each member must be a tensor. */
    public Map<String, Tensor> tensors() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (String name : object().keySet()) {
            tensors.put(name, get(name).tensor());
        }
        return tensors;
    }

    /** This tensor, on the CPU, in the caller's memory scope. */
    public Tensor tensor() {
        for (String name : object().keySet()) {
            if (!List.of("dtype", "shape", "data").contains(name)) {
                throw error("is no tensor: it has a member '" + name + "' besides dtype, shape and data");
            }
        }
        DType dtype = get("dtype").dtype();
        long[] shape = get("shape").shape();
        TensorJson data = get("data");
        int count = data.array().size();
        long expected = 1;
        for (long size : shape) {
            // Sizes are below 2^31, so one product cannot wrap; a count that cannot be right need not grow further.
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

    /** The elements of this array as a vector. */
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
                        throw item(i).error("is " + value + ", more than an int32 holds");
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
            throw item(index).error("is " + array().get(index) + ", more than its dtype holds");
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

    /**
     * Writes a document, each tensor on a line of its own.
     *
     * @param document a {@link Tensor}, a map with text keys, an {@link Iterable}, a text, a finite number, a truth
     *     value or null; maps and lists hold the same again
     * @throws IOException if the file cannot be written
     * @throws IllegalArgumentException if the document holds something else
     */
    public static void write(Path file, Object document) throws IOException {
        Files.writeString(file, format(document));
    }

    /** The text that {@link #write} puts into a file. */
    public static String format(Object document) {
        StringBuilder text = new StringBuilder();
        append(text, document, "\n");
        return text.append('\n').toString();
    }

    private static void append(StringBuilder text, Object value, String newline) {
        if (value instanceof Tensor tensor) {
            appendTensor(text, tensor);
        } else if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (var entry : map.entrySet()) {
                text.append(separator).append(newline).append("  ");
                text.append(new JsonPrimitive((String) entry.getKey())).append(": ");
                append(text, entry.getValue(), newline + "  ");
                separator = ",";
            }
            text.append(map.isEmpty() ? "{" : newline).append('}');
        } else if (value instanceof Iterable<?> items) {
            String separator = "[";
            for (Object item : items) {
                text.append(separator).append(newline).append("  ");
                append(text, item, newline + "  ");
                separator = ",";
            }
            text.append(separator.equals("[") ? "[" : newline).append(']');
        } else if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            if (!Double.isFinite(number)) {
                throw new IllegalArgumentException("a number outside a tensor must be finite, not " + number);
            }
            text.append(value instanceof Float ? shortest((float) number) : shortest(number));
        } else if (value instanceof String string) {
            text.append(new JsonPrimitive(string));
        } else if (value == null || value instanceof Integer || value instanceof Long || value instanceof Boolean) {
            text.append(value);
        } else {
            throw new IllegalArgumentException("a document cannot hold an object of " + value.getClass());
        }
    }

    private static void appendTensor(StringBuilder text, Tensor tensor) {
        try (var scope = MemoryScope.open()) {
            DType dtype = DType.of(tensor);
            text.append("{\"dtype\":\"").append(name(dtype)).append("\",\"shape\":[");
            for (long i = 0; i < tensor.dim(); i++) {
                text.append(i == 0 ? "" : ",").append(tensor.size(i));
            }
            text.append("],\"data\":[");
            int count = Math.toIntExact(tensor.numel());
            // float64 holds every element of the smaller floating types, and every int32 and bool, exactly.
            boolean integer = dtype == DType.INT64;
            Tensor flat = tensor.detach()
                    .cpu()
                    .to(integer ? torch.ScalarType.Long : torch.ScalarType.Double)
                    .reshape(-1)
                    .contiguous();
            long[] integers = new long[integer ? count : 0];
            double[] numbers = new double[integer ? 0 : count];
            if (count > 0 && integer) {
                flat.data_ptr_long().get(integers);
            } else if (count > 0) {
                flat.data_ptr_double().get(numbers);
            }
            for (int i = 0; i < count; i++) {
                text.append(i == 0 ? "" : ",");
                text.append(
                        switch (dtype) {
                            case INT64 -> Long.toString(integers[i]);
                            case INT32 -> Integer.toString((int) numbers[i]);
                            case BOOL -> Boolean.toString(numbers[i] != 0);
                            case FLOAT64 -> shortest(numbers[i]);
                            case FLOAT32, BFLOAT16, FLOAT16 -> shortest((float) numbers[i]);
                        });
            }
            text.append("]}");
        }
    }

    /** Before JDK 19 {@code Double.toString} gives a digit too many now and then; files must not depend on the JDK. */
    private static String shortest(double value) {
        for (int digits = 15; digits < 17 && Double.isFinite(value); digits++) {
            String text = decimal(value, digits);
            if (Double.parseDouble(text) == value) {
                return text;
            }
        }
        return Double.isFinite(value) ? decimal(value, 17) : "\"" + value + "\"";
    }

    private static String shortest(float value) {
        for (int digits = 6; digits < 9 && Float.isFinite(value); digits++) {
            String text = decimal(value, digits);
            if (Float.parseFloat(text) == value) {
                return text;
            }
        }
        return Float.isFinite(value) ? decimal(value, 9) : "\"" + value + "\"";
    }

    private static String decimal(double value, int digits) {
        if (value == 0) {
            return 1 / value < 0 ? "-0.0" : "0.0";
        }
        BigDecimal rounded =
                new BigDecimal(value).round(new MathContext(digits)).stripTrailingZeros();
        return rounded.scale() <= 0 && rounded.scale() > -15
                ? rounded.toPlainString() + ".0"
                : rounded.toString().replace('E', 'e');
    }
}
