/**
 * The writeup: Markdown with formulas and references to measurements, built into an HTML page and a PDF.
 *
 * <p>Read {@link cs336.writeup.Writeup} first (syntax and result), then {@link cs336.writeup.WriteupBuilder} (resolves
 * references and collects errors), {@link cs336.writeup.ChapterVisitor} (numbers and checks),
 * {@link cs336.writeup.NumberedBlockRenderer} (figures, tables and links) and {@link cs336.writeup.MarkdownHtml}
 * (Markdown to HTML).
 *
 * <p>May use {@code numbers}, and the packages that it may use.
 */
package cs336.writeup;
