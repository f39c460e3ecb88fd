package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.charts.Figure;
import cs336.charts.HoverTexts;
import java.util.List;

/** Checks that figures of stored measurements say where they were measured. */
public final class MarkOrigins {
    private MarkOrigins() {}

    /** Asserts that each mark of the figures names an H200 and a commit when the pointer is on it. */
    public static void assertNamed(List<Figure> figures) {
        for (Figure figure : figures) {
            List<HoverTexts.HoverText> texts = figure.hoverTexts().texts();
            assertFalse(texts.isEmpty(), figure.name());
            for (HoverTexts.HoverText text : texts) {
                assertTrue(
                        text.text().matches("(?s).*NVIDIA H200, commits? [0-9a-f]{7,10}\\b.*"),
                        figure.name() + ": " + text.text());
            }
        }
    }
}
