package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Rules of the report's chapters that the builder does not demand of every text. */
class ReportTextTest {
    /** The chapters with questions; the last two are about method and reproduction. */
    private static final Pattern CHAPTER = Pattern.compile("(0[1-9]|1[0-6])-.*\\.md");

    private static final Pattern SOURCE = Pattern.compile("\\*\\(.*(2024|UW|2025|2026|beyond the handouts)\\)\\*");

    private static final Pattern NAMED = Pattern.compile("(?m)^name: *(\\S+)$|\\{#(eq-[\\w-]+)\\}");

    private static List<Path> chapters() throws IOException {
        try (Stream<Path> files = Files.list(Project.path("writeup"))) {
            List<Path> chapters = files.filter(file ->
                            CHAPTER.matcher(file.getFileName().toString()).matches())
                    .sorted()
                    .toList();
            assertEquals(16, chapters.size());
            return chapters;
        }
    }

    @Test
    void aTextLinksToEveryTableAndEquation() throws IOException {
        var text = new StringBuilder();
        try (Stream<Path> files = Files.list(Project.path("writeup"))) {
            for (Path file : files.filter(file -> file.toString().endsWith(".md"))
                    .sorted()
                    .toList()) {
                text.append(Files.readString(file));
            }
        }
        List<String> targets = NAMED.matcher(text)
                .results()
                .map(match -> match.group(1) != null ? "#table-" + match.group(1) : "#" + match.group(2))
                .toList();
        assertTrue(targets.size() > 150, targets.size() + " tables and equations");
        assertEquals(
                List.of(),
                targets.stream()
                        .filter(target -> text.indexOf("(" + target + ")") < 0)
                        .toList());
    }

    @Test
    void questionsNameTheirProblemAndYear() throws IOException {
        for (Path chapter : chapters()) {
            List<String> questions = Files.readAllLines(chapter).stream()
                    .filter(line -> line.startsWith("### ") && !line.equals("### Setup"))
                    .toList();
            assertTrue(questions.size() > 1, chapter + " has questions");
            assertEquals(
                    List.of(),
                    questions.stream()
                            .filter(question -> !SOURCE.matcher(question).find())
                            .toList(),
                    chapter.toString());
        }
    }
}
