package cs336.numbers;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import tech.tablesaw.api.Table;

/** The appendix of the writeup that lists the device, versions, commit and date of all measurements it uses. */
public final class MeasurementOrigins {
    /** The heading of the appendix. */
    public static final String TITLE = "Origin of the numbers";

    private MeasurementOrigins() {}

    /** Returns a heading and a table with the origin of each file whose rows were used; empty if no rows were used. */
    public static String html(MeasurementQuery numbers) {
        Map<Path, Table> used = numbers.used();
        if (used.isEmpty()) {
            return "";
        }
        var rows = new ArrayList<List<String>>();
        used.forEach((file, table) -> {
            // One line per distinct origin.
            var origins = new LinkedHashMap<List<String>, TreeSet<String>>();
            for (int row = 0; row < table.rowCount(); row++) {
                List<String> origin = List.of(
                        MeasurementQuery.cell(table, row, "device"),
                        MeasurementQuery.cell(table, row, "versions"),
                        MeasurementQuery.cell(table, row, "commit"));
                String date = MeasurementQuery.cell(table, row, "date");
                origins.computeIfAbsent(origin, o -> new TreeSet<>())
                        .add(date.length() > 10 ? date.substring(0, 10) : date);
            }
            String name = file.getParent().getFileName() + "/" + file.getFileName();
            origins.forEach((origin, dates) -> {
                String first = dates.first();
                String last = dates.last();
                var cells = new ArrayList<>(List.of(name));
                cells.addAll(origin);
                cells.add(first.equals(last) ? first : first + " to " + last);
                // A file of single steps has no origin columns; its origin is that of the file with the statistics.
                if (cells.get(1).isEmpty()) {
                    cells.set(1, "as " + name.replaceFirst("_steps\\.csv$", ".csv"));
                }
                rows.add(cells);
            });
        });
        var cells = new TextTable(
                List.of("measurements", "device", "versions", "commit", "date"),
                List.of(false, false, false, false, false),
                rows);
        return "<h2 id=\"origin-of-the-numbers\">" + TITLE + "</h2>\n"
                + "<p>Every number above is read from a file of measurements when this page is built.</p>\n"
                + "<div class=\"origin\">" + cells.html() + "</div>\n";
    }
}
