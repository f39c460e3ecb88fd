package cs336.writeup;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.pdfbox.Loader;
import org.apache.pdfbox.text.PDFTextStripper;
import org.apache.pdfbox.text.TextPosition;

/** Text of a PDF that extends into the right margin, where the page cuts it off, such as that of a wide table. */
final class CutOffText extends PDFTextStripper {
    private static final double MARGIN = 19 / 25.4 * 72; // of page.css, in points
    private static final double TOLERANCE = 1;

    private final List<String> found = new ArrayList<>();

    private CutOffText() {}

    /** Returns the texts that are cut off, each with its page. */
    static List<String> of(byte[] pdf) throws IOException {
        try (var document = Loader.loadPDF(pdf)) {
            var stripper = new CutOffText();
            stripper.getText(document);
            return stripper.found;
        }
    }

    @Override
    protected void writeString(String text, List<TextPosition> positions) {
        TextPosition last = positions.get(positions.size() - 1);
        double end = last.getXDirAdj() + last.getWidthDirAdj();
        if (last.getDir() == 0 && end > last.getPageWidth() - MARGIN + TOLERANCE) {
            found.add("page " + getCurrentPageNo() + ": " + text);
        }
    }
}
