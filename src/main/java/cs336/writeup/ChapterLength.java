package cs336.writeup;

import cs336.numbers.MeasurementOrigins;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.pdfbox.Loader;
import org.apache.pdfbox.pdmodel.PDDocument;
import org.apache.pdfbox.pdmodel.interactive.documentnavigation.destination.PDPageXYZDestination;
import org.apache.pdfbox.pdmodel.interactive.documentnavigation.outline.PDOutlineItem;
import org.apache.pdfbox.pdmodel.interactive.documentnavigation.outline.PDOutlineNode;

/**
 * The length of a chapter in a PDF.
 *
 * @param title title in the outline
 * @param page page on which the chapter begins, from 1
 * @param pages length in pages, such as 2.5
 */
record ChapterLength(String title, int page, double pages) {
    /** Returns whether the chapter belongs to the appendix: full tables, and the origin of the numbers. */
    boolean isAppendix() {
        return title.startsWith("Appendix") || title.equals(MeasurementOrigins.TITLE);
    }

    /** Returns the lengths of the chapters, which are at the second level of the outline. */
    static List<ChapterLength> of(byte[] pdf) throws IOException {
        try (PDDocument document = Loader.loadPDF(pdf)) {
            var titles = new ArrayList<String>();
            var starts = new ArrayList<Double>();
            PDOutlineNode outline = document.getDocumentCatalog().getDocumentOutline();
            if (outline != null) {
                for (PDOutlineItem part : outline.children()) {
                    for (PDOutlineItem chapter : part.children()) {
                        titles.add(chapter.getTitle());
                        starts.add(start(document, chapter));
                    }
                }
            }
            starts.add((double) document.getNumberOfPages());
            var lengths = new ArrayList<ChapterLength>();
            for (int c = 0; c < titles.size(); c++) {
                double start = starts.get(c);
                lengths.add(new ChapterLength(titles.get(c), (int) start + 1, starts.get(c + 1) - start));
            }
            return lengths;
        }
    }

    /** Returns the number of pages before a chapter, with the fraction of the page above its heading. */
    private static double start(PDDocument document, PDOutlineItem chapter) throws IOException {
        var page = chapter.findDestinationPage(document);
        double above = 0;
        if (chapter.getDestination() instanceof PDPageXYZDestination place && place.getTop() >= 0) {
            above = 1 - place.getTop() / page.getMediaBox().getHeight();
        }
        return document.getPages().indexOf(page) + Math.max(0, above);
    }
}
