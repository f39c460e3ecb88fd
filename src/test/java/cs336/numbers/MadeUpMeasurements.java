package cs336.numbers;

import cs336.charts.Charts;
import cs336.charts.Figure;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** Invented measurements for tests. */
public final class MadeUpMeasurements {
    private static final String HEADER = "size,context,implementation,metric,unit,n,mean,std,median,min,max,status,"
            + "device,versions,commit,date\n";

    private MadeUpMeasurements() {}

    /** Returns five sizes × four contexts × three passes; the largest case runs out of memory in two passes. */
    public static Table sweep() {
        var size = StringColumn.create("size");
        var context = IntColumn.create("context");
        var metric = StringColumn.create("metric");
        var mean = DoubleColumn.create("mean");
        var std = DoubleColumn.create("std");
        var status = StringColumn.create("status");
        List<String> sizes = List.of("small", "medium", "large", "xl", "2.7B");
        for (String pass : List.of("forward", "forward-backward", "step")) {
            for (int s = 0; s < sizes.size(); s++) {
                for (int c = 128; c <= 1024; c *= 2) {
                    boolean oom = s == 4 && c == 1024 && !pass.equals("forward");
                    size.append(sizes.get(s));
                    context.append(c);
                    metric.append(pass);
                    mean.append(oom ? Double.NaN : (s + 1) * (s + 1) * c / 64.0 * (pass.equals("forward") ? 1 : 3));
                    std.append(oom ? Double.NaN : (s + 1) * c / 640.0);
                    status.append(oom ? "oom" : "ok");
                }
            }
        }
        return Table.create("sweep", size, context, metric, mean, std, status);
    }

    /** Returns the rows of {@link #sweep()} with one metric. */
    public static Table sweep(String metric) {
        Table table = sweep();
        return table.where(table.stringColumn("metric").isEqualTo(metric));
    }

    /** Returns a bar, a line and a scatter chart of {@link #sweep()}, and a line chart of other numbers. */
    public static List<Figure> figures() {
        return List.of(
                Charts.bar(sweep())
                        .x("size", "model size")
                        .y("mean", "time (ms)")
                        .error("std")
                        .by("context", "context length")
                        .panels("metric")
                        .logY()
                        .figure("bars", "made up"),
                Charts.line(sweep())
                        .x("context", "context length (tokens)")
                        .y("mean", "time (ms)")
                        .error("std")
                        .by("size")
                        .panels("metric")
                        .log2X()
                        .logY()
                        .figure("lines", "made up"),
                Charts.scatter(sweep("forward"))
                        .x("context", "context length (tokens)")
                        .y("mean", "time (ms)")
                        .by("size")
                        .level(100, "a tenth of a second")
                        .logX()
                        .figure("points", "made up"),
                Charts.line(Charts.table(new double[] {0.1, 0.2, 1234567}, Map.of("a", new double[] {0.25, -1, 1.5})))
                        .x("x", "x")
                        .y("y", "ratio")
                        .figure("decimals", "made up"));
    }

    /** Creates a project with the measurements of one machine and a writeup, and returns the folder of the writeup. */
    public static Path project(Path root, String writeup) throws IOException {
        Path machine = Files.createDirectories(root.resolve("data/measurements/pretend"));
        var csv = new StringBuilder(HEADER);
        for (String implementation : List.of("plain", "peer")) {
            for (int s = 0; s < 2; s++) {
                for (int context : new int[] {128, 256}) {
                    double ms = (s + 1) * context * (implementation.equals("plain") ? 0.25 : 0.5);
                    csv.append(s == 0 ? "small" : "xl")
                            .append(',')
                            .append(context)
                            .append(',');
                    csv.append(implementation)
                            .append(",forward,ms,10,")
                            .append(ms)
                            .append(',');
                    csv.append(ms / 100)
                            .append(",1,1,1,ok,Pretend GPU,java 17,abc,2026-01-0")
                            .append(s + 1)
                            .append("T00:00:00Z\n");
                }
            }
        }
        csv.append("xl,512,plain,forward,ms,,,,,,,oom,Pretend GPU,java 17,abc,2026-01-01T00:00:00Z\n");
        csv.append("xl,128,plain,peak-memory,B,1,3221225472,,,,,ok,Pretend GPU,java 17,abc,2026-01-01T00:00:00Z\n");
        Files.writeString(machine.resolve("timing.csv"), csv);
        figures().get(2).save(root.resolve("figures"));
        Path folder = Files.createDirectories(root.resolve("writeup"));
        Files.writeString(folder.resolve("writeup.md"), writeup);
        return folder;
    }
}
