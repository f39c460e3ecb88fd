package cs336.writeup;

import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file of a writeup, such as {@code 08-flash-attention.md} or {@code appendix-08-flash-attention.md}. Chapters in the
 * order of their names precede the list of references and the appendices.
 *
 * @param path the file
 * @param number number of the chapter or of the chapter that an appendix belongs to; 0 for a file without a number
 * @param isAppendix whether this is an appendix
 */
record ChapterFile(Path path, int number, boolean isAppendix) implements Comparable<ChapterFile> {
    /** The name of the list of references. */
    static final String REFERENCES = "references.md";

    private static final Pattern NAME = Pattern.compile("(appendix-)?(\\d+)-.*");

    /** Returns the file with this path. */
    static ChapterFile of(Path path) {
        String name = path.getFileName().toString();
        Matcher match = NAME.matcher(name);
        return new ChapterFile(
                path, match.matches() ? Integer.parseInt(match.group(2)) : 0, name.startsWith("appendix-"));
    }

    /** Returns whether this is the list of references. */
    boolean isReferences() {
        return path.endsWith(REFERENCES);
    }

    @Override
    public int compareTo(ChapterFile other) {
        int order = Integer.compare(part(), other.part());
        return order != 0 ? order : path.compareTo(other.path);
    }

    private int part() {
        return isAppendix ? 2 : isReferences() ? 1 : 0;
    }
}
