package cs336.writeup;

import cs336.bench.WholeFile;
import cs336.numbers.Expression;
import cs336.numbers.MeasuredTable;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.WrittenTable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The writeup: chapters in Markdown whose numbers are references to measurements, built into one self-contained HTML
 * page and a PDF.
 *
 * <p>The folder contains {@code writeup.md} and further chapters such as {@code 08-flash-attention.md}, which follow in
 * alphabetical order. The number of a chapter's heading is that of its file. {@code writeup.md} begins with front
 * matter:
 *
 * <pre>
 * ---
 * title: …
 * machine: h200                       # folder name of the measurements
 * measurements: ../data/measurements  # folder of all machines, optional
 * define:                             # names for expressions, optional
 *   xl: benchmarking_script[size=xl, context=512]
 * ---
 * </pre>
 *
 * <p>A chapter may begin with front matter that only has {@code define}. Its names are those of this chapter; names
 * used in several chapters are defined in {@code writeup.md}. A definition may use names defined before it.
 *
 * <p>In the text,
 *
 * <ul>
 *   <li><code>{{xl[metric=forward] : %.1f ms}}</code> is replaced by a number (see {@link MeasurementQuery} and
 *       {@link Expression}),
 *   <li>a fenced block {@code table} is replaced by a table: of the cases of one selection (see {@link MeasuredTable}),
 *       or of rows in Markdown, which may repeat (see {@link WrittenTable}),
 *   <li>an image in its own paragraph becomes a numbered figure,
 *   <li>a formula <code>$$…$$ {#eq-name}</code> becomes a numbered equation,
 *   <li>a link to such an image, to {@code #table-name} or to {@code #eq-name} is followed by the number of the figure,
 *       table or equation,
 *   <li>{@code [@dao2022]} is replaced by the number of the entry {@code - [dao2022] …} in {@code references.md}.
 * </ul>
 *
 * <p>{@code references.md} follows the chapters. Files {@code appendix-08-name.md} follow it; their headings begin with
 * {@code ## Appendix 8}, and their tables have numbers such as A8.1.
 *
 * <p>The build fails if a reference is missing, ambiguous or malformed, if a time, size or rate has no unit, if a table
 * has no caption, if a table header is a stored name, if no text refers to a figure or cites an entry, and if a link
 * leads nowhere. Each problem is reported with its file and line.
 */
public final class Writeup {
    private final String title;
    private final String html;
    private final String body;

    Writeup(String title, String html, String body) {
        this.title = title;
        this.html = html;
        this.body = body;
    }

    /**
     * Reads a writeup and resolves its references.
     *
     * @param folder folder with {@code writeup.md}
     * @throws WriteupException if the writeup has errors; the message has one line per error
     * @throws IOException if a file cannot be read
     */
    public static Writeup read(Path folder) throws IOException, WriteupException {
        return new WriteupBuilder(folder).build();
    }

    /** Returns the writeup as a self-contained HTML page. */
    public String html() {
        return html;
    }

    /** Returns the writeup as a PDF of A4 pages; equal content gives equal bytes. */
    public byte[] pdf() {
        return Pdf.render(title, Page.forPrint(title, body));
    }

    /**
     * Writes {@code writeup.html} and {@code writeup.pdf} into a folder, which is created if missing.
     *
     * @return the lengths of the chapters in the PDF
     */
    List<ChapterLength> save(Path folder) throws IOException {
        Files.createDirectories(folder);
        WholeFile.write(folder.resolve("writeup.html"), html());
        byte[] pdf = pdf();
        WholeFile.write(folder.resolve("writeup.pdf"), out -> out.write(pdf));
        return ChapterLength.of(pdf);
    }
}
