package cs336.writeup;

import java.io.IOException;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.Node;
import org.w3c.dom.Text;
import org.xml.sax.InputSource;
import org.xml.sax.SAXException;

/**
 * The order in which the PDF library draws text, which is the order in which viewers copy it. The library first draws
 * the text that is directly in an element, and then that of inline elements in it, such as links and code. If all text
 * is in inline elements, it draws them in their order.
 */
final class TextOrder {
    /** Elements whose text is not drawn, or drawn as it is. */
    private static final Set<String> KEPT = Set.of("head", "style", "script", "svg", "pre");

    private TextOrder() {}

    /**
     * Returns the document of a page in which text next to inline elements is in a span.
     *
     * @throws IllegalArgumentException if the page is not well-formed
     */
    static Document prepared(String xhtml) {
        try {
            var factory = DocumentBuilderFactory.newInstance();
            factory.setNamespaceAware(true);
            Document page = factory.newDocumentBuilder().parse(new InputSource(new StringReader(xhtml)));
            wrapText(page.getDocumentElement());
            return page;
        } catch (SAXException e) {
            throw new IllegalArgumentException("the page is not well-formed: " + e.getMessage(), e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (ParserConfigurationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void wrapText(Element element) {
        List<Text> texts = new ArrayList<>();
        boolean hasElements = false;
        Node next;
        for (Node child = element.getFirstChild(); child != null; child = next) {
            next = child.getNextSibling();
            if (child instanceof Text text && !text.getData().isBlank()) {
                texts.add(text);
            } else if (child instanceof Element inner) {
                hasElements = true;
                if (!KEPT.contains(inner.getTagName())) {
                    wrapText(inner);
                }
            }
        }
        if (hasElements) {
            for (Text text : texts) {
                Element span = element.getOwnerDocument().createElementNS(element.getNamespaceURI(), "span");
                element.replaceChild(span, text);
                span.appendChild(text);
            }
        }
    }
}
