package cs336.numbers;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import tech.tablesaw.api.Table;

/** The appendix of the writeup that lists the origin of all measurements it uses. */
public final class MeasurementOrigins {
    /** The heading of the appendix. */
    public static final String TITLE = "Origin of the numbers";

    private MeasurementOrigins() {}

    /** The dates and load averages of the rows with one origin. */
    private static final class DatesAndLoads {
        private final TreeSet<String> dates = new TreeSet<>();
        private final TreeSet<Double> loads = new TreeSet<>();
    }

    private static String range(TreeSet<?> values) {
        if (values.isEmpty()) {
            return "";
        }
        return values.size() == 1 ? values.first().toString() : values.first() + " to " + values.last();
    }

    /** Returns a heading and a table with the origin of each file whose rows were used; empty if no rows were used. */
    public static String html(MeasurementQuery numbers) {
        Map<Path, Table> used = numbers.used();
        if (used.isEmpty()) {
            return "";
        }
        var rows = new ArrayList<List<String>>();
        used.forEach((file, table) -> {
            // One line per distinct origin.
            var origins = new LinkedHashMap<List<String>, DatesAndLoads>();
            for (int row = 0; row < table.rowCount(); row++) {
                String device = MeasurementQuery.cell(table, row, "device");
                String host = MeasurementQuery.cell(table, row, "host");
                List<String> origin = List.of(
                        host.isEmpty() || host.equals(device) ? device : device + "; " + host,
                        MeasurementQuery.cell(table, row, "versions"),
                        MeasurementQuery.cell(table, row, "commit"));
                DatesAndLoads here = origins.computeIfAbsent(origin, o -> new DatesAndLoads());
                String date = MeasurementQuery.cell(table, row, "date");
                here.dates.add(date.length() > 10 ? date.substring(0, 10) : date);
                String load = MeasurementQuery.cell(table, row, "load");
                if (!load.isEmpty()) {
                    here.loads.add(Double.parseDouble(load));
                }
            }
            String name = file.getParent().getFileName() + "/" + file.getFileName();
            origins.forEach((origin, here) -> {
                var cells = new ArrayList<>(List.of(name));
                cells.addAll(origin);
                cells.add(range(here.dates));
                if (!here.loads.isEmpty()) {
                    cells.set(1, cells.get(1) + "; load " + range(here.loads));
                }
                // A file of single steps has no origin columns; its origin is that of the file with the statistics.
                if (cells.get(1).isEmpty()) {
                    cells.set(1, "as " + name.replaceFirst("_steps\\.csv$", ".csv"));
                }
                rows.add(cells);
            });
        });
        var cells = new TextTable(
                List.of("measurements", "device; host; load", "versions", "commit", "date"),
                List.of(false, false, false, false, false),
                rows);
        return "<h2 id=\"origin-of-the-numbers\">" + TITLE + "</h2>\n"
                + "<p>Every number above is read from a file of measurements when this page is built. The load is the"
                + " host's load average over one minute, which includes the measuring processes.</p>\n"
                + "<div class=\"origin\">" + cells.html() + "</div>\n";
    }
}
