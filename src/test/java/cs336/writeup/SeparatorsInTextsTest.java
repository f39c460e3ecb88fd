package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Numbers of four or more digits in the writeup and in the titles of figures have commas. */
class SeparatorsInTextsTest {
    private static final Pattern NO_TEXT = Pattern.compile("(?s)<(script|style|svg|pre|code)\\b.*?</\\1>|<[^>]*>");
    private static final Pattern ORIGIN = // a commit may have digits only
            Pattern.compile("(?s)<div class=\"origin\">.*?</div>");

    private static final Pattern TITLE = Pattern.compile("<title>(.*?)</title>");

    /** A number of four or more digits, or groups of digits with a space between them. */
    private static final Pattern NUMBER =
            Pattern.compile("(?<![\\w.,/#:_-])(\\d{4,}|\\d{1,3}([\u2009\u202f]\\d{3})+)(?![\\w/-])");

    private static final Pattern YEAR = Pattern.compile("(19|20)\\d\\d");
    private static final Pattern SHAPE = Pattern.compile("\\[\\d+(, \\d+)+\\]");

    private static List<String> withoutCommas(String text) {
        Matcher number = NUMBER.matcher(SHAPE.matcher(text).replaceAll(""));
        return number.results()
                .map(match -> match.group())
                .filter(digits -> !YEAR.matcher(digits).matches())
                .toList();
    }

    @Test
    void numbersOfTheWriteupHaveCommas() throws Exception {
        String html = Writeup.read(Project.path("writeup")).html();
        String text = NO_TEXT.matcher(ORIGIN.matcher(html).replaceAll("")).replaceAll(" ");
        assertTrue(text.contains("65,536") && text.length() > 100_000, "the text of the writeup");
        assertEquals(List.of(), withoutCommas(text));
    }

    @Test
    void numbersInTitlesOfFiguresHaveCommas() throws IOException {
        try (Stream<Path> figures = Files.list(Project.path("figures"))) {
            for (Path figure :
                    figures.filter(file -> file.toString().endsWith(".svg")).toList()) {
                Matcher title = TITLE.matcher(Files.readString(figure));
                assertTrue(title.find(), figure + " has a title");
                assertEquals(List.of(), withoutCommas(title.group(1)), figure.toString());
            }
        }
    }
}
