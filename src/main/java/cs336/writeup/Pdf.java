package cs336.writeup;

import com.openhtmltopdf.outputdevice.helper.BaseRendererBuilder.FontStyle;
import com.openhtmltopdf.pdfboxout.PdfRendererBuilder;
import com.openhtmltopdf.svgsupport.BatikSVGDrawer;
import com.openhtmltopdf.util.XRLog;
import cs336.charts.Typeface;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Calendar;
import java.util.GregorianCalendar;
import java.util.Locale;
import java.util.TimeZone;
import java.util.logging.Level;
import org.apache.pdfbox.pdmodel.PDDocument;
import org.apache.pdfbox.pdmodel.PDDocumentInformation;

/** Conversion of well-formed HTML pages to PDF, with SVG as vector graphics; equal pages give equal bytes. */
final class Pdf {
    private Pdf() {}

    /** Returns the content of the PDF file of a page. */
    static byte[] render(String title, String xhtml) {
        Typeface.prepare();
        XRLog.listRegisteredLoggers().forEach(logger -> XRLog.setLevel(logger, Level.WARNING));
        var builder = new PdfRendererBuilder();
        for (Typeface face : Typeface.values()) {
            byte[] font = face.ttf();
            builder.useFont(
                    () -> new ByteArrayInputStream(font),
                    face.family(),
                    face.weight(),
                    face.italic() ? FontStyle.ITALIC : FontStyle.NORMAL,
                    true);
        }
        builder.useSVGDrawer(new BatikSVGDrawer());
        builder.withHtmlContent(xhtml, null);
        var out = new ByteArrayOutputStream();
        try (var renderer = builder.buildPdfRenderer()) {
            renderer.createPDFWithoutClosing();
            try (PDDocument document = renderer.getPdfDocument()) {
                fixIdentity(document, title, xhtml);
                document.save(out);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return out.toByteArray();
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
        document.setDocumentId((long) xhtml.hashCode());
    }
}
