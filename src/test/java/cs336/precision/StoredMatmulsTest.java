package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Measurements;
import cs336.bench.Precision;
import cs336.bench.Project;
import cs336.profile.KernelKind;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import tech.tablesaw.api.Row;

/** The names of the kernels that were profiled on the H200 tell whether they computed in the type that is claimed. */
class StoredMatmulsTest {
    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16"})
    void everyStoredProductRanInThePrecisionThatIsClaimed(Precision precision) throws IOException {
        List<String> products = Measurements.read(Project.path("data/measurements/h200/profiling_kernels.csv")).stream()
                .filter(row -> row.getString("dtype").equals(precision.toString()))
                .filter(row -> row.getString("kind").equals(KernelKind.MATMUL.toString()))
                .map(StoredMatmulsTest::kernel)
                .filter(name -> !MatmulKernelsGpuTest.SUM_OF_PARTS.matcher(name).find())
                .toList();
        assertTrue(products.size() > 0);
        assertEquals(
                List.of(),
                products.stream()
                        .filter(name -> !MatmulKernelsGpuTest.names(precision)
                                .matcher(name)
                                .find())
                        .toList());
    }

    private static String kernel(Row row) {
        return row.getString("kernel");
    }
}
