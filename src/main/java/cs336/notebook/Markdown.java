package cs336.notebook;

import java.util.List;
import org.commonmark.Extension;
import org.commonmark.ext.gfm.tables.TablesExtension;
import org.commonmark.parser.Parser;
import org.commonmark.renderer.html.HtmlRenderer;

/** Markdown cells as HTML, with tables. */
final class Markdown {
    private final List<Extension> extensions = List.of(TablesExtension.create());
    private final Parser parser = Parser.builder().extensions(extensions).build();
    private final HtmlRenderer renderer =
            HtmlRenderer.builder().extensions(extensions).build();

    String html(String markdown) {
        return renderer.render(parser.parse(markdown));
    }
}
