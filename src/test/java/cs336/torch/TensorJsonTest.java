package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TensorJsonTest {
    private MemoryScope scope;

    @BeforeEach
    void open() {
        scope = MemoryScope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    @Test
    void theLastIndexRunsFastest() {
        Tensor tensor = TensorJson.parse("{\"dtype\":\"float64\",\"shape\":[2,3],\"data\":[1,2,3,4,5,6]}")
                .tensor();
        assertEquals(6, tensor.select(0, 1).select(0, 2).item_double());
        assertEquals(4, tensor.select(0, 1).select(0, 0).item_double());
    }

    @Test
    void everyFloat64ReadsBackTheSame() {
        SplittableRandom random = new SplittableRandom(1);
        double[] values = new double[5000];
        Arrays.setAll(values, i -> finite(Double.longBitsToDouble(random.nextLong())));
        double[] edges = {
            -0.0,
            0.0,
            Double.MIN_VALUE,
            Double.MAX_VALUE,
            0.1,
            1e23,
            2e-3,
            123456789012345680.0,
            Math.PI,
            9007199254740993.0
        };
        System.arraycopy(edges, 0, values, 0, edges.length);
        Tensor back = TensorJson.parse(TensorJson.format(Tensor.create(values))).tensor();
        double[] read = new double[values.length];
        back.data_ptr_double().get(read);
        assertArrayEquals(values, read);
        assertEquals(Long.MIN_VALUE, Double.doubleToRawLongBits(read[0]));
    }

    private static double finite(double value) {
        return Double.isFinite(value) ? value : 1.5;
    }

    @Test
    void everyFloat32ReadsBackTheSame() {
        SplittableRandom random = new SplittableRandom(2);
        float[] values = new float[5000];
        for (int i = 0; i < values.length; i++) {
            float value = Float.intBitsToFloat(random.nextInt());
            values[i] = Float.isFinite(value) ? value : 0.1f;
        }
        Tensor back = TensorJson.parse(TensorJson.format(Tensor.create(values))).tensor();
        float[] read = new float[values.length];
        back.data_ptr_float().get(read);
        assertArrayEquals(values, read);
    }

    @ParameterizedTest
    @CsvSource({"float64", "float32", "bfloat16", "float16", "int64", "int32", "bool"})
    void everyDtypeKeepsItsTypeShapeAndElements(String dtype) {
        DType type = DType.valueOf(dtype.toUpperCase());
        Tensor tensor = Tensor.create(0.0, 1.0, -2.5, 3.0, 100.125, -7.0)
                .reshape(3, 1, 2)
                .to(type.scalarType());
        String json = TensorJson.format(tensor);
        assertTrue(json.startsWith("{\"dtype\":\"" + dtype + "\",\"shape\":[3,1,2],"), json);
        Tensor back = TensorJson.parse(json).tensor();
        assertEquals(type, DType.of(back));
        assertTrue(torch.equal(tensor, back));
    }

    @Test
    void bigIntegersKeepEveryDigit() {
        Tensor tensor = Tensor.create(Long.MAX_VALUE, Long.MIN_VALUE, (1L << 53) + 1);
        assertTrue(
                torch.equal(tensor, TensorJson.parse(TensorJson.format(tensor)).tensor()));
    }

    @Test
    void infinitiesAndNanStandAsTexts() {
        String json = TensorJson.format(Tensor.create(Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY));
        assertTrue(json.contains("[\"NaN\",\"Infinity\",\"-Infinity\"]"), json);
        double[] read = new double[3];
        TensorJson.parse(json).tensor().data_ptr_double().get(read);
        assertArrayEquals(new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}, read);
    }

    @Test
    void numbersAreTheShortest() {
        String json = TensorJson.format(Tensor.create(2e-3, 0.1, 100, 1e23, 2.2250738585072014e-308));
        assertTrue(json.contains("\"data\":[0.002,0.1,100.0,1e+23,2.2250738585072014e-308]"), json);
    }

    @Test
    void scalarsAndEmptyTensorsHaveAShape() {
        Tensor scalar = TensorJson.parse("{\"dtype\":\"float32\",\"shape\":[],\"data\":[3]}")
                .tensor();
        assertEquals(0, scalar.dim());
        Tensor empty = TensorJson.parse("{\"dtype\":\"int64\",\"shape\":[2,0],\"data\":[]}")
                .tensor();
        assertEquals(0, empty.numel());
        assertEquals(2, empty.size(0));
        assertEquals("{\"dtype\":\"int64\",\"shape\":[2,0],\"data\":[]}\n", TensorJson.format(empty));
    }

    @Test
    void aViewIsWrittenInItsOwnOrder() {
        Tensor transposed = Tensor.create(new double[] {1, 2, 3, 4, 5, 6}, 2, 3).t();
        assertTrue(TensorJson.format(transposed).contains("\"shape\":[3,2],\"data\":[1.0,4.0,2.0,5.0,3.0,6.0]"));
    }

    @Test
    void aWholeDocumentReadsBackInOrder() {
        Map<String, Object> inner = new LinkedHashMap<>();
        inner.put("z.weight", Tensor.create(1.0, 2.0));
        inner.put("a.weight", Tensor.create(3L));
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("how", "by \"hand\"\n");
        document.put("lr", 0.01);
        document.put("steps", List.of(1, 2L, true));
        document.put("none", null);
        document.put("parameters", inner);
        document.put("empty", List.of());
        TensorJson read = TensorJson.parse(TensorJson.format(document));
        assertEquals("by \"hand\"\n", read.get("how").text());
        assertEquals(0.01, read.get("lr").number());
        assertEquals(2, read.get("steps").list().get(1).integer());
        assertEquals(
                List.of("z.weight", "a.weight"),
                List.copyOf(read.get("parameters").tensors().keySet()));
        assertEquals(0, read.get("empty").list().size());
        assertTrue(read.has("none") && !read.has("other"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"shape\":[1],\"data\":[1]} | w has no member 'dtype'; it has [shape, data]",
                "{\"dtype\":\"double\",\"shape\":[1],\"data\":[1]} | w.dtype is 'double'; known: float64, float32",
                "{\"dtype\":\"float64\",\"shape\":[2],\"data\":[1]} | w.data has 1 elements, but the shape [2] has 2",
                "{\"dtype\":\"float64\",\"shape\":[-2],\"data\":[1]} | w.shape[0] is -2",
                "{\"dtype\":\"float64\",\"shape\":[1.5],\"data\":[1]} | w.shape[0] is 1.5, not a whole number",
                "{\"dtype\":\"float64\",\"shape\":2,\"data\":[1]} | w.shape is not an array",
                "{\"dtype\":\"float64\",\"shape\":[2147483647,2147483647,2147483647],\"data\":[]} | w.data has 0 elements",
                "{\"dtype\":\"float64\",\"shape\":[2],\"data\":[1,\"x\"]} | w.data[1] is \"x\", not a number",
                "{\"dtype\":\"float64\",\"shape\":[1],\"data\":[[1]]} | w.data[0] is [1], not a number",
                "{\"dtype\":\"float64\",\"shape\":[1],\"data\":[1e999]} | w.data[0] is 1e999, more than its dtype holds",
                "{\"dtype\":\"float32\",\"shape\":[1],\"data\":[1e39]} | w.data[0] is 1e39, more than its dtype holds",
                "{\"dtype\":\"int64\",\"shape\":[1],\"data\":[9223372036854775808]} | w.data[0] is 9223372036854775808, not",
                "{\"dtype\":\"int32\",\"shape\":[1],\"data\":[2147483648]} | w.data[0] is 2147483648, more than an int32",
                "{\"dtype\":\"int64\",\"shape\":[1],\"data\":[1.5]} | w.data[0] is 1.5, not a whole number",
                "{\"dtype\":\"bool\",\"shape\":[1],\"data\":[1]} | w.data[0] is neither true nor false",
                "{\"dtype\":\"bool\",\"shape\":[1],\"data\":[true],\"device\":\"cpu\"} | w is no tensor: it has a member 'device'",
                "[1] | w is not an object",
            })
    void whatIsWrongIsNamedWithItsPath(String tensor, String message) {
        TensorJson document = TensorJson.parse("{\"w\":" + tensor + "}");
        var error = assertThrows(
                IllegalArgumentException.class, () -> document.get("w").tensor());
        assertTrue(error.getMessage().startsWith("JSON: " + message), error.getMessage());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {"{\"a\":NaN}", "{'a':1}", "[1,]", "{\"a\":1} 2", "``", "{\"a\":", "{\"a\":1,\"a\":2}"})
    void whatIsNotStrictJsonIsRefused(String json) {
        assertThrows(IllegalArgumentException.class, () -> TensorJson.parse(json));
    }

    @Test
    void whatHasNoPlaceInADocumentIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> TensorJson.format(Map.of("a", Double.NaN)));
        assertThrows(IllegalArgumentException.class, () -> TensorJson.format(new Object()));
    }
}
