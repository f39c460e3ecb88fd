package cs336.kernels.runtime;

import cs336.bench.WholeFile;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A CUDA C++ source with the files that it includes as {@code #include "name"}. Headers of CUDA and of the C++ standard
 * library, such as {@code <cuda_fp16.h>}, are not found.
 *
 * @param name file name, for compile errors
 * @param text source text
 * @param includes texts of all directly or indirectly included files, by name
 */
public record KernelSource(String name, String text, SortedMap<String, String> includes) {
    private static final Pattern INCLUDE = Pattern.compile("(?m)^#include \"([^\"]+)\"");

    public KernelSource {
        Objects.requireNonNull(includes, "includes must not be null");
        includes = Collections.unmodifiableSortedMap(new TreeMap<>(includes));
    }

    /**
     * Returns a file of the folder {@code kernels/}, which the build copies to the class path.
     *
     * @throws UncheckedIOException if there is no such file, or an included file is missing
     */
    public static KernelSource named(String name) {
        return withIncludes(name, KernelSource::fromClassPath);
    }

    /**
     * Reads a file from disk, for kernels under development. Included files are read from the same folder or, if they
     * are not there, from {@code kernels/}.
     *
     * @throws UncheckedIOException if a file cannot be read
     */
    public static KernelSource read(Path file) {
        return withIncludes(file.getFileName().toString(), name -> {
            Path sibling = file.resolveSibling(name);
            return Files.exists(sibling) ? Files.readString(sibling) : fromClassPath(name);
        });
    }

    /** Returns a source with this text, as in a notebook. Included files are read from {@code kernels/}. */
    public static KernelSource of(String name, String text) {
        Objects.requireNonNull(name, "name must not be null");
        return withIncludes(name, file -> file.equals(name) ? text : fromClassPath(file));
    }

    @FunctionalInterface
    private interface SourceReader {
        String read(String name) throws IOException;
    }

    private static KernelSource withIncludes(String name, SourceReader reader) {
        try {
            String text = reader.read(name);
            SortedMap<String, String> includes = new TreeMap<>();
            collect(text, reader, includes);
            return new KernelSource(name, text, includes);
        } catch (IOException e) {
            throw new UncheckedIOException("kernel source " + name + " could not be read: " + WholeFile.reason(e), e);
        }
    }

    private static void collect(String text, SourceReader reader, Map<String, String> includes) throws IOException {
        Matcher include = INCLUDE.matcher(text);
        while (include.find()) {
            String name = include.group(1);
            if (!includes.containsKey(name)) {
                String included = reader.read(name);
                includes.put(name, included);
                collect(included, reader, includes);
            }
        }
    }

    private static String fromClassPath(String name) throws IOException {
        if (name.contains("/")) {
            throw new NoSuchFileException("kernels/" + name);
        }
        try (InputStream file = KernelSource.class.getResourceAsStream("/cs336/kernels/" + name)) {
            if (file == null) {
                throw new NoSuchFileException("kernels/" + name);
            }
            return new String(file.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
