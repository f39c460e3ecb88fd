package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.pdfbox.Loader;
import org.apache.pdfbox.text.PDFTextStripper;
import org.apache.pdfbox.text.TextPosition;
import org.junit.jupiter.api.Test;

class PdfTest {
    private static final int PAGE_PX = 979; // height of a page without its margins

    /** Paragraphs that begin at different distances from the end of a page have words that must not be divided. */
    @Test
    void linesAreEquallyFarApartNextToAPageBreak() throws Exception {
        var body = new StringBuilder("<h1 id=\"a\">A</h1>");
        int paragraphs = 0;
        for (int above = PAGE_PX - 100; above < PAGE_PX; above++) {
            String words = "some words of a line <span class=\"whole\">(<a href=\"#a\">Table 1</a>).</span> ".repeat(8);
            for (String paragraph : List.of("<p>" + words + "</p>", "<ul><li>" + words + "</li></ul>")) {
                body.append("<div style=\"page-break-before: always; height: " + above + "px\"></div>" + paragraph);
                paragraphs++;
            }
        }
        var lines = new ArrayList<Line>();
        try (var document = Loader.loadPDF(Pdf.render("Made up", Page.forPrint("Made up", body.toString())))) {
            var stripper = new PDFTextStripper() {
                @Override
                protected void writeString(String text, List<TextPosition> positions) throws IOException {
                    if (text.contains("words")) {
                        lines.add(new Line(getCurrentPageNo(), positions.get(0).getYDirAdj()));
                    }
                }
            };
            stripper.setSortByPosition(true);
            stripper.getText(document);
        }
        double usual = 10.2 * 1.37; // font size and line height of page.css, in points
        int pairs = 0;
        for (int i = 1; i < lines.size(); i++) {
            Line previous = lines.get(i - 1);
            Line line = lines.get(i);
            if (line.page == previous.page && line.y > previous.y + 1) {
                assertEquals(usual, line.y - previous.y, 0.1, "page " + line.page);
                pairs++;
            }
        }
        assertTrue(pairs > paragraphs, pairs + " pairs of lines");
    }

    @Test
    void aTableThatIsWiderThanThePageIsRejected() {
        String narrow = table(8);
        Pdf.render("Made up", Page.forPrint("Made up", narrow));
        String wide = table(12);
        String message = assertThrows(
                        IllegalArgumentException.class, () -> Pdf.render("Made up", Page.forPrint("Made up", wide)))
                .getMessage();
        assertTrue(message.endsWith("it begins on page 1: 1,234,567"), message);
    }

    private static String table(int columns) {
        return "<h1 id=\"a\">A</h1><table><tr>" + "<td class=\"number\">1,234,567</td>".repeat(columns)
                + "</tr></table>";
    }

    private record Line(int page, double y) {}
}
