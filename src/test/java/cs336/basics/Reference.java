package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.MemoryScope;
import cs336.torch.TensorJson;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** The float64 reference vectors in {@code src/test/resources/cs336/reference}, and tolerances for comparisons. */
final class Reference {
    /** Tolerance of float64 computations, well below the precision of float32. */
    static final double FLOAT64 = 1e-12;

    /** One unit in the last place of a float32 near 1. */
    static final double FLOAT32_ULP = Math.scalb(1.0, -23);

    private Reference() {}

    static TensorJson read(String name) {
        try (var reader = new InputStreamReader(
                Reference.class.getResourceAsStream("/cs336/reference/" + name), StandardCharsets.UTF_8)) {
            return TensorJson.parse(reader, name);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the largest absolute difference, relative to the largest expected element. */
    static double error(Tensor expected, Tensor actual) {
        try (var scope = MemoryScope.open()) {
            assertEquals(expected.sizes().vec().toString(), actual.sizes().vec().toString(), "shape");
            Tensor e = expected.detach().cpu().to(ScalarType.Double);
            Tensor a = actual.detach().cpu().to(ScalarType.Double);
            double scale = e.abs().max().item_double();
            double difference = a.sub(e).abs().max().item_double();
            return difference == 0 ? 0 : difference / scale;
        }
    }

    static void assertClose(double tolerance, String what, Tensor expected, Tensor actual) {
        double error = error(expected, actual);
        // NaN must fail.
        assertTrue(error <= tolerance, () -> what + " has relative error " + error + "; allowed " + tolerance);
    }

    static void assertAllClose(
            double tolerance, String what, Map<String, Tensor> expected, Map<String, Tensor> actual) {
        assertEquals(expected.keySet(), actual.keySet(), what);
        expected.forEach((name, tensor) -> assertClose(tolerance, what + " " + name, tensor, actual.get(name)));
    }
}
