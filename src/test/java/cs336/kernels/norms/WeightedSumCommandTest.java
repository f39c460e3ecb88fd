package cs336.kernels.norms;

import static cs336.kernels.Closeness.assertClose;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.NnModule;
import cs336.bench.Measurements;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import picocli.CommandLine;
import tech.tablesaw.api.Row;

class WeightedSumCommandTest extends ScopedTest {
    @TempDir
    Path folder;

    @Test
    void everyImplementationIsStoredWithItsLeastTraffic() throws Exception {
        var out = new StringWriter();
        String arguments = "--rows 3 --hidden 16 --passes 20 --dtype bf16 --synchronize group,each --device cpu"
                + " --machine here --output " + folder;
        assertEquals(
                0,
                new CommandLine(new WeightedSumCommand())
                        .setOut(new PrintWriter(out))
                        .execute(arguments.split(" ")));
        var bytes = new TreeMap<String, Double>();
        var implementations = new TreeMap<String, Integer>();
        for (Row row : Measurements.read(folder.resolve("here/weighted_sum.csv"))) {
            assertEquals("ok", row.getString("status"));
            if (row.getString("unit").equals("ms")) {
                implementations.merge(row.getString("implementation"), 1, Integer::sum);
                assertTrue(row.getDouble("median") > 0);
            }
            if (row.getString("unit").equals("bytes")
                    && !row.getString("implementation").equals("copy")) {
                bytes.put(row.getString("metric"), row.getDouble("mean"));
            }
        }
        double tensor = 3 * 16 * 2;
        assertEquals(Map.of("forward-bytes", tensor, "forward-backward-bytes", 3 * tensor), bytes);
        assertEquals(Map.of("copy", 2, "plain", 4, "fused", 4, "compiled", 4), implementations, "protocols × passes");
    }

    @ParameterizedTest
    @EnumSource(WeightedSumImplementation.class)
    void allImplementationsComputeTheSameSumsAndGradients(WeightedSumImplementation implementation) {
        Tensor x = torch.randn(new long[] {7, 33}, Device.cpu().options(DType.FLOAT32))
                .set_requires_grad(true);
        Tensor dy = torch.randn(new long[] {7}, Device.cpu().options(DType.FLOAT32));
        try (NnModule layer = implementation.create(33, Device.cpu(), DType.FLOAT32)) {
            Tensor y = layer.forward(x);
            Backward.of(y).with(dy).run();
            Tensor wide = x.detach().to(DType.FLOAT64.scalarType()); // the weight is 1
            Tensor column = dy.to(DType.FLOAT64.scalarType()).unsqueeze(-1);
            assertClose("y", Tensors.toDoubles(wide.sum(-1)), Tensors.toDoubles(y), 1e-5, 1e-5);
            assertClose("dx", Tensors.toDoubles(column.expand(7, 33)), Tensors.toDoubles(x.grad()), 1e-6, 1e-6);
            assertClose(
                    "dw",
                    Tensors.toDoubles(column.mul(wide).sum(0)),
                    Tensors.toDoubles(layer.parameters().get(0).grad()),
                    1e-5,
                    1e-5);
        }
    }
}
