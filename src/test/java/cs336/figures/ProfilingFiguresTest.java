package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.XYChart;

class ProfilingFiguresTest {
    @Test
    void storedProfilesGiveTheStoredFigures() throws IOException {
        MeasurementQuery h200 = MeasurementQuery.of(Project.path("data/measurements/h200"));
        for (Figure figure : List.of(ProfilingFigures.kinds(h200), ProfilingFigures.softmax(h200))) {
            MarkOrigins.assertNamed(List.of(figure));
            assertEquals(
                    Files.readString(Project.path("figures/" + figure.name() + ".svg")), figure.svg(), figure.name());
        }
    }

    /** Cases of 1 s of kernel time: case i has (i + 1) · 0.1 s of GEMMs; the rest is elementwise. */
    private static MeasurementQuery measured(Path folder, String... cases) throws IOException {
        var csv = new StringBuilder(
                "size,year,batch,context,dtype,pass,implementation,metric,unit,n,mean,std,median,min,max,"
                        + "status,device,versions,commit,date\n");
        for (int i = 0; i < cases.length; i++) {
            String line = cases[i].replaceFirst(",", ",2025,4,") + ",plain,%s,ms,3,%s,0,1,1,1,ok,GPU,java,abc,today\n";
            double matmul = 100 * (i + 1);
            csv.append(line.formatted("total-matmul", matmul));
            csv.append(line.formatted("total-elementwise", 1000 - matmul));
            csv.append(line.formatted("total-kernels", 1000));
            csv.append(line.formatted("forward-attention-softmax", 1));
            csv.append(line.formatted("forward-attention-matmul", matmul));
            csv.append(line.formatted("attention-softmax-flop", 5));
            csv.append(line.formatted("attention-matmul-flop", 256));
        }
        csv.append("2.7B,2025,4,1024,fp32,step,plain,profiled,ms,,,,,,,oom,GPU,java,abc,today\n");
        Files.writeString(folder.resolve("profiling.csv"), csv);
        return MeasurementQuery.of(folder);
    }

    @Test
    void sizesAreInTheOrderOfModelSizeWhateverTheOrderOfMeasurement(@TempDir Path folder) throws IOException {
        MeasurementQuery numbers = measured(
                folder,
                "2.7B,256,bf16,step",
                "xl,256,fp32,forward",
                "small,256,fp32,forward",
                "small,256,bf16,step",
                "small,512,fp32,forward");
        var panels = ProfilingFigures.kinds(numbers).panels();
        assertEquals(2, panels.size(), "forward pass in fp32, training step in bf16");
        var forward = (CategoryChart) panels.get(0);
        var matmuls = forward.getSeries("matmul");
        assertEquals(List.of("small", "xl", "2.7B"), List.copyOf(matmuls.getXData()));
        assertEquals(30.0, matmuls.getYData()[0], 1e-9);
        assertEquals(1, ProfilingFigures.softmax(numbers).panels().size());
        var ratios = (XYChart) ProfilingFigures.softmax(numbers).panels().get(0);
        assertEquals(
                List.of("small", "xl"),
                ratios.getSeriesCollection().stream()
                        .map(series -> series.getName())
                        .toList());
        double[] small = ratios.getSeries("small").getYData();
        assertEquals(2, small.length, "both contexts");
        assertEquals(1.0 / 300, small[0], 1e-12);
        assertEquals(1.0 / 500, small[1], 1e-12);
    }

    @Test
    void aLayerWithoutStoredStacksIsNamed() {
        MeasurementQuery h200 = MeasurementQuery.of(Project.path("data/measurements/h200"));
        var error = assertThrows(IllegalArgumentException.class, () -> ProfilingFigures.layer(h200, "layers.99"));
        assertEquals("layer: the stored stacks have no layer layers.99", error.getMessage());
    }
}
