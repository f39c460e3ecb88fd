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

/** The names of the stored H200 GEMM kernels, which contain the data types of cuBLAS. */
class StoredMatmulsTest {
    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16"})
    void everyStoredGemmRanInItsNominalPrecision(Precision precision) throws IOException {
        List<String> gemms = Measurements.read(Project.path("data/measurements/h200/profiling_kernels.csv")).stream()
                .filter(row -> row.getString("dtype").equals(precision.toString()))
                .filter(row -> row.getString("kind").equals(KernelKind.MATMUL.toString()))
                .map(StoredMatmulsTest::kernel)
                .filter(name ->
                        !MatmulKernelsGpuTest.SPLIT_K_REDUCTION.matcher(name).find())
                .toList();
        assertTrue(gemms.size() > 0);
        assertEquals(
                List.of(),
                gemms.stream()
                        .filter(name -> !MatmulKernelsGpuTest.names(precision)
                                .matcher(name)
                                .find())
                        .toList());
    }

    private static String kernel(Row row) {
        return row.getString("kernel");
    }
}
