package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TensorJsonTest extends ScopedTest {
    @Test
    void dataIsInRowMajorOrder() {
        Tensor tensor = TensorJson.parse("{\"dtype\":\"float64\",\"shape\":[2,3],\"data\":[1,2,3,4,5,6]}")
                .tensor();
        assertEquals(6, tensor.select(0, 1).select(0, 2).item_double());
        assertEquals(4, tensor.select(0, 1).select(0, 0).item_double());
    }

    private static TensorJson vector(String dtype, String... data) {
        return TensorJson.parse("{\"dtype\":\"" + dtype + "\",\"shape\":[" + data.length + "],\"data\":["
                + String.join(",", data) + "]}");
    }

    @Test
    void everyFloat64IsReadExactly() {
        var random = new SplittableRandom(1);
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
        String[] data = Arrays.stream(values).mapToObj(Double::toString).toArray(String[]::new);
        double[] read = new double[values.length];
        vector("float64", data).tensor().data_ptr_double().get(read);
        assertArrayEquals(values, read);
        assertEquals(Long.MIN_VALUE, Double.doubleToRawLongBits(read[0]));
    }

    private static double finite(double value) {
        return Double.isFinite(value) ? value : 1.5;
    }

    @Test
    void everyFloat32IsReadExactly() {
        var random = new SplittableRandom(2);
        float[] values = new float[5000];
        String[] data = new String[values.length];
        for (int i = 0; i < values.length; i++) {
            float value = Float.intBitsToFloat(random.nextInt());
            values[i] = Float.isFinite(value) ? value : 0.1f;
            data[i] = Float.toString(values[i]);
        }
        float[] read = new float[values.length];
        vector("float32", data).tensor().data_ptr_float().get(read);
        assertArrayEquals(values, read);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "float64  | 0,1,-2.5,3,100.125,-7",
                "float32  | 0,1,-2.5,3,100.125,-7",
                "bfloat16 | 0,1,-2.5,3,100.125,-7",
                "float16  | 0,1,-2.5,3,100.125,-7",
                "int64    | 0,1,-2,3,100,-7",
                "int32    | 0,1,-2,3,100,-7",
                "bool     | false,true,true,true,true,true"
            })
    void everyDtypeHasItsTypeShapeAndElements(String dtype, String data) {
        DType type = DType.valueOf(dtype.toUpperCase());
        Tensor expected = Tensor.create(0.0, 1.0, -2.5, 3.0, 100.125, -7.0)
                .reshape(3, 1, 2)
                .to(type.scalarType());
        Tensor read = TensorJson.parse("{\"dtype\":\"" + dtype + "\",\"shape\":[3,1,2],\"data\":[" + data + "]}")
                .tensor();
        assertEquals(type, DType.of(read));
        assertTrue(torch.equal(expected, read));
    }

    @Test
    void bigIntegersKeepEveryDigit() {
        Tensor read = vector("int64", "9223372036854775807", "-9223372036854775808", "9007199254740993")
                .tensor();
        assertTrue(torch.equal(Tensor.create(Long.MAX_VALUE, Long.MIN_VALUE, (1L << 53) + 1), read));
    }

    @Test
    void infinitiesAndNanAreStrings() {
        double[] read = new double[3];
        vector("float64", "\"NaN\"", "\"Infinity\"", "\"-Infinity\"")
                .tensor()
                .data_ptr_double()
                .get(read);
        assertArrayEquals(new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}, read);
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
    }

    @Test
    void aWholeDocumentIsReadInOrder() {
        TensorJson read = TensorJson.parse("""
                {
                  "how": "by \\"hand\\"\\n",
                  "lr": 0.01,
                  "steps": [1, 2, true],
                  "none": null,
                  "parameters": {
                    "z.weight": {"dtype": "float64", "shape": [2], "data": [1, 2]},
                    "a.weight": {"dtype": "int64", "shape": [1], "data": [3]}
                  },
                  "empty": []
                }
                """);
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
                "{\"dtype\":\"float64\",\"shape\":[1.5],\"data\":[1]} | w.shape[0] is 1.5, not a 64-bit integer",
                "{\"dtype\":\"float64\",\"shape\":2,\"data\":[1]} | w.shape is not an array",
                "{\"dtype\":\"float64\",\"shape\":[2147483647,2147483647,2147483647],\"data\":[]} | w.data has 0 elements",
                "{\"dtype\":\"float64\",\"shape\":[2],\"data\":[1,\"x\"]} | w.data[1] is \"x\", not a number",
                "{\"dtype\":\"float64\",\"shape\":[1],\"data\":[[1]]} | w.data[0] is [1], not a number",
                "{\"dtype\":\"float64\",\"shape\":[1],\"data\":[1e999]} | w.data[0] is 1e999, out of range for its dtype",
                "{\"dtype\":\"float32\",\"shape\":[1],\"data\":[1e39]} | w.data[0] is 1e39, out of range for its dtype",
                "{\"dtype\":\"int64\",\"shape\":[1],\"data\":[9223372036854775808]} | w.data[0] is 9223372036854775808, not a 64-bit integer",
                "{\"dtype\":\"int32\",\"shape\":[1],\"data\":[2147483648]} | w.data[0] is 2147483648, out of range for int32",
                "{\"dtype\":\"int64\",\"shape\":[1],\"data\":[1.5]} | w.data[0] is 1.5, not a 64-bit integer",
                "{\"dtype\":\"bool\",\"shape\":[1],\"data\":[1]} | w.data[0] is neither true nor false",
                "{\"dtype\":\"bool\",\"shape\":[1],\"data\":[true],\"device\":\"cpu\"} | w is not a tensor: it has a member 'device'",
                "[1] | w is not an object",
            })
    void aWrongNodeIsReportedWithItsPath(String tensor, String message) {
        TensorJson document = TensorJson.parse("{\"w\":" + tensor + "}");
        var error = assertThrows(
                IllegalArgumentException.class, () -> document.get("w").tensor());
        assertTrue(error.getMessage().startsWith("JSON: " + message), error.getMessage());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"a\":NaN}",
                "{'a':1}",
                "[1,]",
                "{\"a\":1} 2",
                "``",
                "{\"a\":",
                "{\"a\":1,\"a\":2}",
                "[TRUE]",
                "[truE]",
                "[\"\\'\"]",
                "[\"a\u0001b\"]"
            })
    void documentsThatAreNotStrictJsonAreRefused(String json) {
        assertThrows(IllegalArgumentException.class, () -> TensorJson.parse(json));
    }
}
