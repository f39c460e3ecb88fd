package cs336.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A CSV file with a header and one line for each row. Each line ends with a line feed, and no cell contains one. Rows
 * are on disk when {@link #append} returns. If a process is killed while it writes, the last line may be incomplete and
 * lack its line feed. Reading ignores such a line, and the next append removes it.
 */
final class TidyCsv {
    private final Path path;

    TidyCsv(Path path) {
        this.path = path;
    }

    Path path() {
        return path;
    }

    /** Returns header and rows; empty if the file is missing or has no complete line. */
    List<List<String>> lines() throws IOException {
        if (!Files.exists(path)) {
            return List.of();
        }
        String text = Files.readString(path);
        String complete = text.substring(0, text.lastIndexOf('\n') + 1);
        var lines = new ArrayList<List<String>>();
        for (String line : complete.lines().toList()) {
            List<String> cells = cells(line);
            if (!lines.isEmpty() && cells.size() != lines.get(0).size()) {
                throw new IOException("%s, line %d: the row has %d cells, the header %d"
                        .formatted(
                                path,
                                lines.size() + 1,
                                cells.size(),
                                lines.get(0).size()));
            }
            lines.add(cells);
        }
        return lines;
    }

    /** Appends rows, and a header before them if the file is empty, and waits until they are on disk. */
    void append(List<String> header, List<List<String>> rows) throws IOException {
        Files.createDirectories(path.toAbsolutePath().getParent());
        try (var file =
                FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            long end = afterLastLineFeed(file);
            file.truncate(end).position(end);
            write(file, (end == 0 ? line(header) : "") + lines(rows));
        }
    }

    /** Replaces the file. The replacement is atomic: a reader sees either the old or the new file. */
    void replace(List<String> header, List<List<String>> rows) throws IOException {
        Path temporary = path.resolveSibling(path.getFileName() + ".new");
        try (var file = FileChannel.open(
                temporary, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
            write(file, line(header) + lines(rows));
        }
        Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    private static void write(FileChannel file, String text) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) {
            file.write(bytes);
        }
        file.force(true);
    }

    private static long afterLastLineFeed(FileChannel file) throws IOException {
        ByteBuffer one = ByteBuffer.allocate(1);
        for (long at = file.size(); at > 0; at--) {
            file.read(one.clear(), at - 1);
            if (one.get(0) == '\n') {
                return at;
            }
        }
        return 0;
    }

    private static String lines(List<List<String>> rows) {
        return rows.stream().map(TidyCsv::line).collect(Collectors.joining());
    }

    private static String line(List<String> cells) {
        return cells.stream().map(TidyCsv::quoted).collect(Collectors.joining(",", "", "\n"));
    }

    private static String quoted(String cell) {
        String flat = cell.replaceAll("\\R", " ");
        return flat.matches("[^\",]*") ? flat : '"' + flat.replace("\"", "\"\"") + '"';
    }

    private static List<String> cells(String line) {
        var cells = new ArrayList<String>();
        var cell = new StringBuilder();
        boolean inQuotes = false;
        for (int i = 0; i < line.length(); i++) {
            char c = line.charAt(i);
            if (c == '"') {
                boolean doubled = inQuotes && i + 1 < line.length() && line.charAt(i + 1) == '"';
                if (doubled) {
                    cell.append(line.charAt(++i));
                } else {
                    inQuotes = !inQuotes;
                }
            } else if (c == ',' && !inQuotes) {
                cells.add(cell.toString());
                cell.setLength(0);
            } else {
                cell.append(c);
            }
        }
        cells.add(cell.toString());
        return cells;
    }
}
