package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The results in the README are rows of the writeup's summary, whose numbers are read from stored measurements. */
class ReadmeResultsTest {
    @Test
    void resultsAreThoseOfTheSummary() throws IOException, WriteupException {
        FrontMatter chapter =
                FrontMatter.read(Project.path("writeup/writeup.md")).ofChapter(Project.path("writeup/00-summary.md"));
        List<String> summary = rows(chapter.numbers().prose(chapter.text()), "### Compared with PyTorch");
        List<String> readme = rows(Files.readString(Project.path("README.md")), "## Results at a glance");
        assertTrue(readme.size() >= 12, "only " + readme.size() + " results");
        assertEquals(
                List.of(),
                readme.stream().filter(row -> !summary.contains(row)).toList(),
                () -> "rows of the summary:\n" + String.join("\n", summary));
        assertTrue(readme.stream().filter(row -> ratio(row) > 1).count() >= 3, "results in which PyTorch is faster");
    }

    /** Returns the rows of the first table below a heading, without its first two lines. */
    private static List<String> rows(String markdown, String heading) {
        List<String> lines = markdown.lines().toList();
        assertTrue(lines.contains(heading), heading);
        return lines.stream()
                .skip(lines.indexOf(heading))
                .dropWhile(line -> !line.startsWith("|"))
                .takeWhile(line -> line.startsWith("|"))
                .skip(2)
                .toList();
    }

    /** Returns the ratio of a row; NaN for a dash. */
    private static double ratio(String row) {
        String[] cells = row.split("\\|");
        String ratio = cells[cells.length - 1].strip();
        return ratio.equals("–") ? Double.NaN : Double.parseDouble(ratio);
    }
}
