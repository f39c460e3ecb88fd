package cs336.writeup;

import com.openhtmltopdf.outputdevice.helper.BaseRendererBuilder.FontStyle;
import com.openhtmltopdf.pdfboxout.PdfRendererBuilder;
import com.openhtmltopdf.svgsupport.BatikSVGDrawer;
import com.openhtmltopdf.util.LogMessageId.LogMessageId0Param;
import com.openhtmltopdf.util.XRLog;
import cs336.charts.Typeface;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Calendar;
import java.util.GregorianCalendar;
import java.util.List;
import java.util.Locale;
import java.util.TimeZone;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Level;
import org.apache.pdfbox.pdmodel.PDDocument;
import org.apache.pdfbox.pdmodel.PDDocumentInformation;

/**
 * Conversion of well-formed HTML pages to PDF, with SVG as vector graphics; equal pages give equal bytes. Screen
 * readers find headings, lists, tables and alternative texts by the structure tags of PDF/UA. Text is drawn in the
 * order in which it is read.
 */
final class Pdf {
    private static final int GSUB = 'G' << 24 | 'S' << 16 | 'U' << 8 | 'B';
    private static final int UNKNOWN_TABLE = 'z' << 24 | 'z' << 16 | 'z' << 8 | 'z';

    private Pdf() {}

    /**
     * Returns the content of the PDF file of a page.
     *
     * @throws IllegalArgumentException if the page asks for a font that is not embedded; the PDF library leaves out
     *     such text and all pages after it. Also if a table is so wide that the right margin cuts it off
     */
    static byte[] render(String title, String xhtml) {
        Typeface.prepare();
        XRLog.listRegisteredLoggers().forEach(logger -> XRLog.setLevel(logger, Level.WARNING));
        var builder = new PdfRendererBuilder();
        for (Typeface face : Typeface.values()) {
            byte[] font = withoutLigatures(face.ttf());
            builder.useFont(
                    () -> new ByteArrayInputStream(font),
                    face.family(),
                    face.weight(),
                    face.italic() ? FontStyle.ITALIC : FontStyle.NORMAL,
                    true);
        }
        builder.usePdfUaAccessibility(true);
        builder.useSVGDrawer(new BatikSVGDrawer());
        builder.withW3cDocument(TextOrder.prepared(xhtml), null);
        var withoutFont = new AtomicBoolean();
        builder.withDiagnosticConsumer(diagnostic -> {
            if (diagnostic.getLogMessageId() == LogMessageId0Param.RENDER_FONT_LIST_IS_EMPTY) {
                withoutFont.set(true);
            }
        });
        var out = new ByteArrayOutputStream();
        try (var renderer = builder.buildPdfRenderer()) {
            renderer.createPDFWithoutClosing();
            if (withoutFont.get()) {
                throw new IllegalArgumentException("page.css gives some text of the page no embedded font");
            }
            try (PDDocument document = renderer.getPdfDocument()) {
                fixIdentity(document, title, xhtml);
                document.save(out);
            }
            byte[] pdf = out.toByteArray();
            requireNothingCutOff(pdf);
            return pdf;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void requireNothingCutOff(byte[] pdf) throws IOException {
        List<String> texts = CutOffText.of(pdf);
        if (!texts.isEmpty()) {
            throw new IllegalArgumentException("the right margin of the PDF cuts off text, for example of a table that"
                    + " is too wide; it begins on " + texts.get(0));
        }
    }

    /**
     * Returns a TrueType font without its table of glyph substitutions. The PDF library would draw ligatures such as
     * "ft" as one glyph without a character, so that text could not be searched or copied.
     */
    static byte[] withoutLigatures(byte[] font) {
        ByteBuffer bytes = ByteBuffer.wrap(font.clone());
        int tables = bytes.getShort(4);
        for (int t = 0; t < tables; t++) {
            int entry = 12 + 16 * t;
            if (bytes.getInt(entry) == GSUB) {
                bytes.putInt(entry, UNKNOWN_TABLE);
            }
        }
        return bytes.array();
    }

    /** Sets the dates and the document id, which otherwise depend on the time. */
    private static void fixIdentity(PDDocument document, String title, String xhtml) {
        var date = new GregorianCalendar(TimeZone.getTimeZone("UTC"), Locale.ROOT);
        date.clear();
        date.set(2026, Calendar.JANUARY, 1);
        PDDocumentInformation information = document.getDocumentInformation();
        information.setTitle(title);
        information.setCreationDate(date);
        information.setModificationDate(date);
        document.getDocumentCatalog().setLanguage("en");
        document.setDocumentId((long) xhtml.hashCode());
    }
}
