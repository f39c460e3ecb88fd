package cs336.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.ReentrantLock;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A CSV file with a header and one line for each row. Each line ends with a line feed, and no cell contains one. Rows
 * are on disk when {@link #append} or {@link #replace} returns. If a process is killed while it writes, the last line
 * may be incomplete and lack its line feed. Reading ignores such a line, and the next append removes it.
 *
 * <p>Several processes may write one file if each does so in {@link #exclusively}. A file {@code <csv>.lock} exists and
 * is locked meanwhile. If a process is killed, its lock file remains, which does no harm.
 */
final class TidyCsv {
    private static final String TEMPORARY = ".new";
    private static final int MOST_LINE_BYTES = 100_000;
    private static final Pattern HEADER_START = Pattern.compile("[\\w,-]*");

    /** The lock between threads of this process. A file lock only excludes other processes. */
    private static final ReentrantLock THREADS = new ReentrantLock();

    private final Path path;

    TidyCsv(Path path) {
        this.path = path;
    }

    Path path() {
        return path;
    }

    /** Creates the folder if it is missing, and runs an action while no other process or thread changes the file. */
    void exclusively(WholeFile.FileAction action) throws IOException {
        Files.createDirectories(path.toAbsolutePath().getParent());
        THREADS.lock();
        try {
            while (!runsLocked(action)) {
                // The lock was acquired on a file that its owner has deleted.
            }
        } finally {
            THREADS.unlock();
        }
    }

    /**
     * Runs an action if the lock file still exists when the lock is acquired, and returns whether it does. The owner
     * gives the file a random length, by which it recognizes the file.
     */
    private boolean runsLocked(WholeFile.FileAction action) throws IOException {
        Path file = sibling(".lock");
        try (var channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                var lock = channel.lock()) {
            // Opening the file again would release the lock; its length can be read without that.
            long owner = ThreadLocalRandom.current().nextLong(1, 1 << 20);
            named(() -> channel.truncate(0).write(ByteBuffer.allocate(1), owner - 1));
            if (!hasLength(file, owner)) {
                return false;
            }
            try {
                action.run();
            } finally {
                Files.delete(file);
            }
            return true;
        }
    }

    private static boolean hasLength(Path file, long bytes) throws IOException {
        try {
            return Files.size(file) == bytes;
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    /**
     * Returns header and rows; empty if the file is missing or has no complete line.
     *
     * @throws IOException if the file cannot be read, its only line is incomplete and cannot belong to a header, or a
     *     line is not UTF-8, begins with a byte order mark, ends with a carriage return alone, has a quote that is not
     *     closed, is too long, or has another number of cells than the header; the message names file and line
     */
    List<List<String>> lines() throws IOException {
        if (!Files.exists(path)) {
            return List.of();
        }
        WholeFile.requireFile(path);
        byte[] bytes = Files.readAllBytes(path);
        var lines = new ArrayList<List<String>>();
        int start = 0;
        for (int at = 0; at < bytes.length; at++) {
            if (bytes[at] == '\n') {
                lines.add(cells(bytes, start, at, lines));
                start = at + 1;
            } else if (bytes[at] == '\r' && at + 1 < bytes.length && bytes[at + 1] != '\n') {
                // All lines of such a file would look like one incomplete line, which the next append removes.
                throw damaged(lines.size() + 1, "the line ends with a carriage return, not with a line feed");
            }
        }
        if (lines.isEmpty()
                && !HEADER_START
                        .matcher(new String(bytes, StandardCharsets.ISO_8859_1))
                        .matches()) {
            throw damaged(1, "the line does not end, and is not the beginning of a header");
        }
        return lines;
    }

    /** Returns the cells of the line after the given ones. */
    private List<String> cells(byte[] bytes, int start, int end, List<List<String>> before) throws IOException {
        int number = before.size() + 1;
        if (end - start > MOST_LINE_BYTES) { // decoding it might fill the memory
            throw damaged(number, "the line has " + (end - start) + " bytes, more than " + MOST_LINE_BYTES);
        }
        boolean carriageReturn = end > start && bytes[end - 1] == '\r';
        List<String> cells;
        try {
            var line = ByteBuffer.wrap(bytes, start, end - start - (carriageReturn ? 1 : 0));
            cells = cells(StandardCharsets.UTF_8.newDecoder().decode(line).toString());
        } catch (CharacterCodingException e) {
            throw damaged(number, "the line is not UTF-8");
        } catch (IllegalArgumentException e) {
            throw damaged(number, e.getMessage());
        }
        if (before.isEmpty()) {
            if (cells.get(0).startsWith("\uFEFF")) { // invisible in the name of the first column
                throw damaged(number, "the file begins with a byte order mark");
            }
            if (cells.stream()
                            .map(cell -> cell.toLowerCase(Locale.ROOT))
                            .distinct()
                            .count()
                    < cells.size()) {
                throw damaged(number, "the header names a column twice");
            }
        } else if (cells.size() != before.get(0).size()) {
            throw damaged(
                    number,
                    "the row has %d cells, the header %d"
                            .formatted(cells.size(), before.get(0).size()));
        }
        return cells;
    }

    /**
     * Returns an error about a line of this file.
     *
     * @param line number of the line, from 1 for the header
     */
    IOException damaged(int line, String reason) {
        return new IOException("%s, line %d: %s".formatted(path, line, reason));
    }

    /**
     * Appends rows, and a header before them if the file is empty, and waits until they are on disk. If that fails, for
     * example because the disk is full, no row is appended.
     */
    void append(List<String> header, List<List<String>> rows) throws IOException {
        try (var file =
                FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            long end = afterLastLineFeed(file);
            file.truncate(end).position(end);
            try {
                write(file, (end == 0 ? line(header) : "") + lines(rows));
            } catch (IOException e) {
                file.truncate(end);
                throw e;
            }
        }
        forceFolder();
    }

    /**
     * Replaces the file. The replacement is atomic: a reader sees either the old or the new file. Temporary files of
     * processes that were killed are deleted.
     */
    void replace(List<String> header, List<List<String>> rows) throws IOException {
        deleteTemporaries();
        Path temporary = sibling("." + ProcessHandle.current().pid() + TEMPORARY);
        try (var file = FileChannel.open(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            write(file, line(header) + lines(rows));
            Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(temporary);
        }
        forceFolder();
    }

    /** Deletes the file. */
    void delete() throws IOException {
        Files.deleteIfExists(path);
    }

    private Path sibling(String suffix) {
        return path.resolveSibling(path.getFileName() + suffix);
    }

    private void deleteTemporaries() throws IOException {
        Path name = path.getFileName();
        try (var stale = Files.newDirectoryStream(
                path.toAbsolutePath().getParent(),
                file -> file.getFileName().toString().startsWith(name + ".")
                        && file.toString().endsWith(TEMPORARY))) {
            for (Path file : stale) {
                Files.deleteIfExists(file);
            }
        }
    }

    private void write(FileChannel file, String text) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
        named(() -> {
            while (bytes.hasRemaining()) {
                file.write(bytes);
            }
            file.force(true);
        });
    }

    /** Runs an action whose errors, such as a full disk, do not name the file, and adds its name. */
    private void named(WholeFile.FileAction action) throws IOException {
        try {
            action.run();
        } catch (IOException e) {
            throw WholeFile.notWritten(path.toString(), e);
        }
    }

    /** Waits until the file's name is on disk, too. */
    private void forceFolder() throws IOException {
        try (var folder = FileChannel.open(path.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
            folder.force(true);
        }
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

    /** @throws IllegalArgumentException if a quote is not closed */
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
        if (inQuotes) {
            throw new IllegalArgumentException("a quote is not closed");
        }
        cells.add(cell.toString());
        return cells;
    }
}
