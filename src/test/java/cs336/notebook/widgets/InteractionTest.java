package cs336.notebook.widgets;

import static cs336.notebook.widgets.Widgets.checkbox;
import static cs336.notebook.widgets.Widgets.dropdown;
import static cs336.notebook.widgets.Widgets.interact;
import static cs336.notebook.widgets.Widgets.slider;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import cs336.charts.Figure;
import cs336.notebook.Renderers;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.XYChartBuilder;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Table;

/** Interactions where there is no widget manager. */
class InteractionTest {
    private final Renderer renderer = new Renderer();

    InteractionTest() {
        Renderers.registerIn(renderer);
    }

    private String html(Object value) {
        return (String) renderer.render(value).getData(MIMEType.TEXT_HTML);
    }

    /** Returns the result of each combination, as the script of the page finds it. */
    private static List<String> results(String html) {
        String data = html.replaceFirst("(?s).*<script type=\"application/json\">(.*?)</script>.*", "$1");
        JsonObject json = JsonParser.parseString(data).getAsJsonObject();
        JsonArray results = json.getAsJsonArray("results");
        List<String> all = new ArrayList<>();
        json.getAsJsonArray("of")
                .forEach(position -> all.add(results.get(position.getAsInt()).getAsString()));
        return all;
    }

    @Test
    void everyCombinationHasItsResultInTheOrderOfTheControls() throws Exception {
        Interaction shown = interact(
                slider("tile", 16, 64, 16).at(32),
                checkbox("causal").at(true),
                dropdown("dtype", "fp32", "bf16"),
                (tile, causal, dtype) -> tile + " " + causal + " " + dtype);
        List<String> expected = new ArrayList<>();
        for (int tile = 16; tile <= 64; tile += 16) {
            for (boolean causal : new boolean[] {false, true}) {
                for (String dtype : List.of("fp32", "bf16")) {
                    expected.add("<pre>" + tile + " " + causal + " " + dtype + "</pre>\n");
                }
            }
        }
        String html = html(shown);
        assertEquals(expected, results(html));
        assertTrue(html.contains("aria-live=\"polite\">\n<pre>32 true fp32</pre>"), html);
        assertEquals(
                "tile = 32, causal = true, dtype = fp32\n32 true fp32",
                renderer.render(shown).getData(MIMEType.TEXT_PLAIN));
    }

    @Test
    void everyControlHasALabelThatContainsIt() throws Exception {
        String html = html(interact(
                slider("rate", 0.1, 0.5, 0.1),
                slider("ranks", List.of(1, 2, 4)),
                dropdown("a<b", "x&y", "z"),
                checkbox("on"),
                (rate, ranks, c, on) -> rate * ranks));
        assertEquals(4, html.split("<label", -1).length - 1);
        assertTrue(html.contains(">rate</span> <input type=\"range\" min=\"0\" max=\"4\" value=\"0\""), html);
        assertTrue(html.contains("data-labels=\"0.1|0.2|0.3|0.4|0.5\""), html);
        assertTrue(
                html.contains(">a&lt;b</span> <select><option selected>x&amp;y</option><option>z</option></select>"),
                html);
        assertTrue(html.contains(">on</span> <input type=\"checkbox\"></label>"), html);
        // All labels are as wide as the longest, so that the controls begin at the same place.
        assertEquals(4, html.split("min-width: 6ch", -1).length - 1);
        assertTrue(html.contains("aria-valuetext=\"0.1\"") && html.contains("<output>0.1</output>"), html);
    }

    @Test
    void tableAndFigureAreShownAsInCells() throws Exception {
        Table table = Table.create(IntColumn.create("n", 7));
        Figure figure = new Figure("f", "A figure.", 200, 100, List.of(new XYChartBuilder().build()));
        DisplayData data = renderer.render(interact(checkbox("figure"), drawn -> drawn ? figure : table));
        List<String> results = results((String) data.getData(MIMEType.TEXT_HTML));
        assertTrue(results.get(0).startsWith("<table>"), results.get(0));
        assertTrue(results.get(1).contains("<img class=\"cs336-figure\" alt=\"A figure.\""), results.get(1));
        assertEquals(
                "figure = true\nA figure.",
                renderer.render(interact(checkbox("figure").at(true), drawn -> figure))
                        .getData(MIMEType.TEXT_PLAIN));
    }

    @Test
    void numbersOfListsAreShort() {
        OptionSlider<Double> budgets = slider("budget", List.of(1e18, 2.5e20, 3.0, 0.335));
        assertEquals(
                List.of("1e18", "2.5e20", "3", "0.335"),
                IntStream.range(0, 4).mapToObj(budgets::show).toList());
        OptionSlider<Integer> contexts = slider("context", List.of(512, 1024));
        assertEquals("512 to 1,024", contexts.show(0) + " to " + contexts.show(1));
        assertEquals("2025", slider("year", List.of(2024, 2025)).show(1));
    }

    @Test
    void twoRunsGiveTheSameBytes() throws Exception {
        List<DisplayData> runs = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            runs.add(renderer.render(interact(slider("n", 1, 9, 1), n -> "n²=" + n * n)));
        }
        for (MIMEType type : List.of(MIMEType.TEXT_HTML, MIMEType.TEXT_PLAIN)) {
            assertEquals(runs.get(0).getData(type), runs.get(1).getData(type));
        }
    }

    @Test
    void tooManyCombinationsShowTheFirstAlone() throws Exception {
        List<Integer> calls = new ArrayList<>();
        String html = html(interact(slider("n", 0, 64, 1).at(7), n -> {
            calls.add(n);
            return "result " + n;
        }));
        assertEquals(List.of(7), calls);
        assertTrue(html.contains("result 7") && html.contains("n = 7"), html);
        assertFalse(html.contains("<input") || html.contains("<script"), html);
    }

    @Test
    void tooLargeResultsShowTheFirstAlone() throws Exception {
        String html =
                html(interact(slider("n", 1, 60, 1), n -> String.valueOf(n % 10).repeat(100_000 + n)));
        assertFalse(html.contains("<script"), html.substring(0, 200));
        assertTrue(html.length() < 200_000, "length " + html.length());
    }

    @Test
    void equalResultsAreStoredOnce() throws Exception {
        String html = html(interact(slider("n", 1, 60, 1), n -> "x".repeat(10_000)));
        assertEquals(60, results(html).size());
        assertTrue(html.length() < 40_000, "length " + html.length());
    }

    @Test
    void whatTheFunctionPrintsAndThrowsIsPartOfItsResult() throws Exception {
        Interaction shown = interact(checkbox("fails"), fails -> {
            System.out.println("a <b> " + fails);
            if (fails) {
                throw new IOException("no & such file");
            }
            return null;
        });
        assertEquals(
                List.of(
                        "<pre>a &lt;b&gt; false\n</pre>\n",
                        "<pre>a &lt;b&gt; true\n</pre>\n<pre>java.io.IOException: no &amp; such file</pre>\n"),
                results(html(shown)));
    }

    @Test
    void failureForOtherValuesIsTheirResult() throws Exception {
        Interaction shown = interact(slider("n", 0, 2, 1), n -> switch (n) {
            case 0 -> "fine";
            case 1 -> throw new StackOverflowError("deep");
            default -> throw new AssertionError("wrong");
        });
        assertEquals(
                List.of(
                        "<pre>fine</pre>\n",
                        "<pre>java.lang.StackOverflowError: deep</pre>\n",
                        "<pre>java.lang.AssertionError: wrong</pre>\n"),
                results(html(shown)));
    }

    @Test
    void scriptCannotBeEndedByAResult() throws Exception {
        DisplayData data = new DisplayData("text");
        data.putHTML("</script><b>bold</b>");
        String html = html(interact(checkbox("x"), x -> x ? data : "plain"));
        assertEquals("</script><b>bold</b>\n", results(html).get(1));
        assertEquals(2, html.split("</script>", -1).length - 1);
    }

    @Test
    void failureForTheFirstValuesFailsTheCell() {
        IOException error = assertThrows(
                IOException.class,
                () -> interact(checkbox("x"), x -> {
                    throw new IOException("first");
                }));
        assertEquals("first", error.getMessage());
    }

    @Test
    void controlsKeepTheirValuesWhileAllAreComputed() throws Exception {
        IntSlider n = slider("n", 1, 5, 1).at(3);
        List<Integer> seen = new ArrayList<>();
        interact(List.of(n), () -> seen.add(n.value()));
        assertEquals(List.of(3, 1, 2, 4, 5), seen);
        assertEquals(3, n.value());
    }

    @Test
    void invalidControlsNameTheControlAndWhatIsAllowed() {
        for (Runnable invalid : List.<Runnable>of(
                () -> slider("tile", 16, 16, 16),
                () -> slider("tile", 16, 128, 0),
                () -> slider("tile", 0.0, 1.0, Double.NaN),
                () -> slider("tile", 0.0, Double.POSITIVE_INFINITY, 1),
                () -> slider("tile", 0.0, 1.000001, 1e-6),
                () -> slider("tile", List.of(1)),
                () -> dropdown("tile", List.of()),
                () -> slider("tile", 16, 128, 16).at(17),
                () -> slider("tile", 16, 128, 16).at(null),
                () -> slider("tile", 0.0, 1.0, 0.25).at(0.3),
                () -> dropdown("tile", "a", "b").at("c"))) {
            IllegalArgumentException error = assertThrows(IllegalArgumentException.class, invalid::run);
            assertTrue(error.getMessage().contains("\"tile\""), error.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> interact(List.of(), () -> 1));
        Checkbox twice = checkbox("x");
        assertThrows(IllegalArgumentException.class, () -> interact(twice, twice, (a, b) -> a));
    }

    @Test
    void sliderEndsAtTheLastWholeStep() {
        IntSlider whole = slider("n", 1, 100, 10);
        assertEquals(
                IntStream.range(0, 10).mapToObj(i -> 1 + 10 * i).toList(),
                IntStream.range(0, whole.count()).mapToObj(whole::choice).toList());
        FloatSlider tenths = slider("x", 0.0, 0.35, 0.1);
        assertEquals(
                List.of(0.0, 0.1, 0.2, 0.3),
                IntStream.range(0, tenths.count()).mapToObj(tenths::choice).toList());
        assertEquals(0.3, tenths.at(0.3).value());
        assertEquals(1_000_001, slider("x", 0.0, 1.0, 1e-6).count());
    }

    @Test
    void listenersLearnOfChangesOnly() throws Exception {
        List<Integer> values = new ArrayList<>();
        IntSlider n = slider("n", 1, 5, 1);
        n.onChange(values::add);
        n.value(4);
        n.value(4);
        n.value(1);
        assertEquals(List.of(4, 1), values);
        assertThrows(IllegalArgumentException.class, () -> n.value(9));
    }

    @Test
    void widgetsWithoutAWidgetManagerShowTheirStateAsText() {
        var area = new OutputArea();
        area.show(() -> {
            System.out.print("printed ");
            return "shown";
        });
        var column = new VBox(List.of(
                new HBox(List.of(new Label("a<b"), new Html("<b>c</b>"))),
                new Button("Run"),
                slider("n", 1, 3, 1),
                area));
        DisplayData data = renderer.render(column);
        assertEquals("a<b\nc\n[Run]\nn = 1\nprinted shown", data.getData(MIMEType.TEXT_PLAIN));
        String html = (String) data.getData(MIMEType.TEXT_HTML);
        assertTrue(html.contains("a&lt;b") && html.contains("<b>c</b>") && html.contains("<pre>shown</pre>"), html);
    }
}
