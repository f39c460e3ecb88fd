package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import cs336.charts.Figure;
import cs336.profile.FlameGraph;
import cs336.profile.FoldedStacks;
import cs336.torch.Tensors;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import javax.imageio.ImageIO;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

class RenderersTest {
    private final Renderer renderer = new Renderer();

    RenderersTest() {
        Renderers.registerIn(renderer);
        Renderers.registerIn(renderer);
    }

    private String text(Object value) {
        return (String) renderer.render(value).getData(MIMEType.TEXT_PLAIN);
    }

    @Test
    void plainValuesAreShownAsTheirElements() {
        assertEquals("[1, 2, 3]", text(new int[] {1, 2, 3}));
        assertEquals("[[1.5], []]", text(new double[][] {{1.5}, {}}));
        assertEquals("[a, [b]]", text(List.of("a", new String[] {"b"})));
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("x", new long[] {7});
        map.put("y", null);
        assertEquals("{x=[7], y=null}", text(map));
        record Pixel(int x, int y) {}
        assertEquals("Pixel[x=1, y=2]", text(new Pixel(1, 2)));
    }

    @Test
    void hintsAreMarkdownSoThatTheirFormulasAreShown() {
        DisplayData shown = renderer.render(new Check.Hint("Hint 1 of 2: $x^2$"));
        assertEquals("Hint 1 of 2: $x^2$", shown.getData(MIMEType.TEXT_MARKDOWN));
        assertEquals("Hint 1 of 2: $x^2$", shown.getData(MIMEType.TEXT_PLAIN));
    }

    @Test
    void whatAValueContainsIsShownAsThatAlone() {
        record Sample(int[] ids, Tensor weights) {}
        record Named(int[] ids) {
            @Override
            public String toString() {
                return "a name";
            }
        }
        Tensor ones = torch.ones(2, 3);
        assertEquals("Sample[ids=[1, 2], weights=Tensor fp32 [2, 3] on cpu]", text(new Sample(new int[] {1, 2}, ones)));
        assertEquals("[a name]", text(List.of(new Named(new int[] {1}))));
        assertEquals("[Tensor fp32 [2, 3] on cpu]", text(List.of(ones)));
        assertEquals("Optional[[1]]", text(Optional.of(new int[] {1})));
        assertEquals("Optional.empty", text(Optional.empty()));
        assertTrue(text(IntStream.range(0, 3)).endsWith(", a stream: toArray() returns its elements"));
    }

    @Test
    void longCollectionsAreTruncatedAndShowTheirSize() {
        String shown = text(IntStream.range(0, 100_000).boxed().toList());
        assertTrue(shown.startsWith("[0, 1, 2,"), shown);
        assertTrue(shown.endsWith("… 100000 in total]"), shown);
        assertTrue(shown.length() < 1000, "length " + shown.length());
        String longTexts = text(Collections.nCopies(90, "x".repeat(1000)));
        assertTrue(longTexts.length() < 6000, "length " + longTexts.length());
        assertTrue(longTexts.endsWith("… 90 in total]"), longTexts);
    }

    @Test
    void aSmallTensorOfManyDimensionsIsShownCompletely() {
        String shown = text(torch.arange(new Scalar(16)).view(2, 2, 2, 2));
        assertTrue(shown.contains("\nvalues \n[[[[0, 1],"), shown);
        assertTrue(shown.endsWith("[14, 15]]]]"), shown);
    }

    @Test
    void listThatContainsItselfIsTruncated() {
        List<Object> list = new ArrayList<>();
        list.add(list);
        assertEquals("[[[[[[[[[…]]]]]]]]]", text(list));
    }

    @Test
    void tableIsHtmlAndText() {
        Table table =
                Table.create(StringColumn.create("size", "a<b", "c"), DoubleColumn.create("ms", 1.25, Double.NaN));
        DisplayData shown = renderer.render(table);
        String html = (String) shown.getData(MIMEType.TEXT_HTML);
        assertTrue(
                html.contains("<td style=\"text-align: left\">a&lt;b</td><td style=\"text-align: right\">1.25"), html);
        assertEquals("size    ms\na<b   1.25\nc        –\n", shown.getData(MIMEType.TEXT_PLAIN));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "312.67839, 22.92193, 0.05437 | 312.678, 22.922, 0.054",
                "320.4426, 38.4020, 3.5484    | 320.44, 38.40, 3.55",
                "0.23, 0.66671, 2.29853       | 0.2300, 0.6667, 2.2985"
            })
    void numbersOfAColumnHaveAsManyDecimalsAsTheLargestNeeds(String values, String shown) {
        double[] numbers = Arrays.stream(values.split(", "))
                .mapToDouble(Double::parseDouble)
                .toArray();
        String text = (String) renderer.render(Table.create(DoubleColumn.create("ms", numbers)))
                .getData(MIMEType.TEXT_PLAIN);
        List<String> cells = text.lines().map(String::strip).toList();
        for (String cell : shown.split(", ")) {
            assertTrue(cells.contains(cell), text);
        }
    }

    @Test
    void longTablesAreTruncatedAndShowTheirSize() {
        Table table =
                Table.create(IntColumn.create("n", IntStream.range(200, 1700).toArray()));
        DisplayData shown = renderer.render(table);
        String html = (String) shown.getData(MIMEType.TEXT_HTML);
        assertEquals(1 + 1000, html.split("<tr>", -1).length - 1);
        assertTrue(html.contains(">1,199<") && !html.contains(">1,200<") && html.contains("1,500 rows in total"));
        assertTrue(shown.getData(MIMEType.TEXT_PLAIN).toString().endsWith("249\n… 1,500 rows in total"));
    }

    @Test
    void longTablesHaveASearchFieldAndShortOnesHaveNoScript() {
        IntColumn numbers = IntColumn.create("n", IntStream.range(0, 21).toArray());
        String html = (String) renderer.render(Table.create(numbers)).getData(MIMEType.TEXT_HTML);
        assertTrue(html.contains("class=\"cs336-table\"") && html.contains("search"), html);
        String few = (String) renderer.render(Table.create(numbers).first(20)).getData(MIMEType.TEXT_HTML);
        assertFalse(few.contains("<script"), few);
    }

    @Test
    void numbersOfAColumnHaveTheSameDecimalsAndSeparators() {
        Table table = Table.create(
                IntColumn.create("parameters", 92_732_160, 1_024),
                IntColumn.create("year", 2024, 2026),
                IntColumn.create("width", 768, 1024),
                DoubleColumn.create("rate", 1117.5, 86),
                DoubleColumn.create("ms", 35.09, 35),
                DoubleColumn.create("wide", 12_345.5, 0.01),
                DoubleColumn.create("bytes", 1_847_000, 12));
        String html = (String) renderer.render(table).getData(MIMEType.TEXT_HTML);
        for (String cell :
                List.of("92,732,160", "1,024", "2024", "1,117.5", "35.09", "35.00", "0.01000", "1,847,000", "12")) {
            assertTrue(html.contains(">" + cell + "<"), cell + " in " + html);
        }
    }

    private static XYChart chart(double last) {
        XYChart chart =
                new XYChartBuilder().width(300).height(200).title("Speed").build();
        chart.addSeries("one", new double[] {1, 2}, new double[] {3, last});
        return chart;
    }

    @Test
    void chartIsHtmlAndPngAndOnRequestSvg() throws IOException {
        DisplayData shown = renderer.render(chart(4));
        assertImageThatFitsTheCell(shown);
        String svg = svg(chart(4));
        assertTrue(svg.startsWith("<svg ") && svg.contains("width='300' height='200'"), svg.substring(0, 200));
        byte[] png = Base64.getDecoder().decode((String) shown.getData(MIMEType.IMAGE_PNG));
        BufferedImage image = ImageIO.read(new ByteArrayInputStream(png));
        assertEquals(600, image.getWidth());
        assertEquals("chart \"Speed\"", shown.getData(MIMEType.TEXT_PLAIN));
    }

    private String svg(Object value) {
        return (String) renderer.renderAs(value, "image/svg+xml").getData(MIMEType.IMAGE_SVG);
    }

    private static void assertImageThatFitsTheCell(DisplayData shown) {
        assertNull(shown.getData(MIMEType.IMAGE_SVG));
        String html = (String) shown.getData(MIMEType.TEXT_HTML);
        assertTrue(html.contains("max-width: 100%; height: auto"), html);
        String svg = html.replaceFirst("(?s).*src=\"data:image/svg\\+xml;base64,([^\"]*)\">.*", "$1");
        assertTrue(new String(Base64.getDecoder().decode(svg), StandardCharsets.UTF_8).startsWith("<svg "));
    }

    @Test
    void flameGraphIsAFrameWithItsScript() throws IOException {
        FoldedStacks stacks = FoldedStacks.of(List.of(
                new FoldedStacks.Stack(List.of("step", "forward"), 30),
                new FoldedStacks.Stack(List.of("step", "backward"), 70)));
        DisplayData shown = renderer.render(FlameGraph.of(stacks).title("a \"step\""));
        String html = (String) shown.getData(MIMEType.TEXT_HTML);
        assertTrue(html.contains("sandbox=\"allow-scripts\"") && html.contains("aspect-ratio: "), html);
        String document = html.replaceFirst("(?s).* srcdoc=\"([^\"]*)\".*", "$1");
        assertTrue(document.contains("<script>") && document.contains("backward"), document);
        assertTrue(html.matches("(?s).*aspect-ratio: [\\d.]+ / [\\d.]+\".*"), html.substring(0, 400));
        assertEquals("Flame graph: a \"step\"", shown.getData(MIMEType.TEXT_PLAIN));
        byte[] png = Base64.getDecoder().decode((String) shown.getData(MIMEType.IMAGE_PNG));
        assertEquals(2400, ImageIO.read(new ByteArrayInputStream(png)).getWidth());
    }

    @Test
    void longLinesOfTextAreBrokenBetweenWords() {
        String text = "✗ 05.1 <T> " + "word ".repeat(50);
        DisplayData shown = renderer.render(new Check.Verdict(false, text));
        assertEquals(text, shown.getData(MIMEType.TEXT_PLAIN));
        String html = (String) shown.getData(MIMEType.TEXT_HTML);
        assertTrue(html.contains("word-break: normal") && html.contains("&lt;T&gt; word"), html);
        assertNull(renderer.render("short\nlines").getData(MIMEType.TEXT_HTML));
    }

    @Test
    void figureIsHtmlAndPngOfItsOwnSize() throws IOException {
        DisplayData shown = renderer.render(new Figure("speed", "How fast it is.", 400, 300, List.of(chart(4))));
        assertImageThatFitsTheCell(shown);
        byte[] png = Base64.getDecoder().decode((String) shown.getData(MIMEType.IMAGE_PNG));
        assertEquals(800, ImageIO.read(new ByteArrayInputStream(png)).getWidth());
        JsonObject size = new Gson()
                .toJsonTree(shown)
                .getAsJsonObject()
                .getAsJsonObject("metadata")
                .getAsJsonObject("image/png");
        assertEquals(400, size.get("width").getAsInt());
        assertEquals(300, size.get("height").getAsInt());
        assertEquals("How fast it is.", shown.getData(MIMEType.TEXT_PLAIN));
    }

    @Test
    void equalChartsHaveEqualSvgAndDifferentChartsShareNoIds() {
        String one = svg(chart(4));
        String same = svg(chart(4));
        String other = svg(chart(5));
        assertEquals(one, same);
        String id = one.replaceAll("(?s).*? id='([^']+)'.*", "$1");
        assertNotEquals(one, id);
        assertFalse(other.contains(id), id);
    }

    @Test
    void imageIsADecodablePng() throws IOException {
        DisplayData shown = renderer.render(new BufferedImage(7, 5, BufferedImage.TYPE_INT_RGB));
        byte[] png = Base64.getDecoder().decode((String) shown.getData(MIMEType.IMAGE_PNG));
        assertEquals(7, ImageIO.read(new ByteArrayInputStream(png)).getWidth());
    }

    @Test
    void tensorIsSummarised() {
        try (Tensor matrix = Tensors.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
                Tensor whole = Tensors.of(new long[] {5, -1}, 2);
                Tensor scalar = Tensors.of(new double[] {0.25});
                Tensor none = Tensors.of(new float[0], 0, 3)) {
            assertEquals(
                    "Tensor fp32 [2, 3] on cpu\nmin 1.000  max 6.000  mean 3.500\nvalues \n"
                            + "[[1.000, 2.000, 3.000],\n [4.000, 5.000, 6.000]]",
                    text(matrix));
            assertEquals("Tensor int64 [2] on cpu\nmin -1  max 5\nvalues [5, -1]", text(whole));
            assertEquals("Tensor fp64 [] on cpu\nvalue 0.2500", text(scalar));
            assertEquals("Tensor fp32 [0, 3] on cpu", text(none));
            matrix.set_requires_grad(true);
            assertTrue(text(matrix).startsWith("Tensor fp32 [2, 3] on cpu, requires grad\n"));
            try (Tensor half = matrix.to(torch.ScalarType.BFloat16);
                    Tensor flags = whole.gt(new org.bytedeco.pytorch.Scalar(0.0))) {
                assertTrue(text(half).startsWith("Tensor bf16 [2, 3] on cpu"), text(half));
                assertEquals("Tensor bool [2] on cpu\nmin false  max true\nvalues [true, false]", text(flags));
            }
        }
        assertEquals("Tensor, closed", text(closed()));
        assertEquals("Tensor, undefined", text(new Tensor()));
    }

    /** PyTorch has no minimum of these types. */
    @Test
    void narrowAndUnsignedTensorsAreSummarised() {
        try (Tensor values = Tensors.of(new float[] {-1, 2, 4}, 3);
                Tensor fp8 = values.to(torch.ScalarType.Float8_e4m3fn);
                Tensor whole = Tensors.of(new long[] {3, 65535}, 2);
                Tensor unsigned = whole.to(torch.ScalarType.UInt16);
                Tensor wider = whole.to(torch.ScalarType.UInt32);
                Tensor large = Tensors.of(new long[] {1, -1}, 2);
                Tensor state = large.to(torch.ScalarType.UInt64)) {
            assertEquals(
                    "Tensor Float8_e4m3fn [3] on cpu\nmin -1.000  max 4.000  mean 1.667\nvalues [-1.000, 2.000, 4.000]",
                    text(fp8));
            assertEquals("Tensor UInt16 [2] on cpu\nmin 3  max 65535\nvalues [3, 65535]", text(unsigned));
            assertEquals("Tensor UInt32 [2] on cpu\nmin 3  max 65535\nvalues [3, 65535]", text(wider));
            assertEquals("Tensor uint64 [2] on cpu\nvalues [1, 18446744073709551615]", text(state));
        }
    }

    @Test
    void sparseTensorsHaveNoValues() {
        try (Tensor matrix = Tensors.of(new float[] {1, 0, 0, 4}, 2, 2);
                Tensor coordinates = matrix.to_sparse();
                Tensor rows = matrix.to_sparse_csr()) {
            assertEquals("Tensor fp32 [2, 2] on cpu", text(coordinates));
            assertEquals("Tensor fp32 [2, 2] on cpu", text(rows));
        }
    }

    @Test
    void cornersOfALargeTensorAreShown() {
        double[] values = IntStream.range(0, 9 * 30).asDoubleStream().toArray();
        try (Tensor matrix = Tensors.of(values, 9, 30);
                Tensor batch = Tensors.of(values, 3, 3, 5, 6)) {
            assertEquals(
                    "[[0.000, 1.000, 2.000, …, 27.00, 28.00, 29.00],\n"
                            + " [30.00, 31.00, 32.00, …, 57.00, 58.00, 59.00],\n"
                            + " [60.00, 61.00, 62.00, …, 87.00, 88.00, 89.00],\n"
                            + " …,\n"
                            + " [180.0, 181.0, 182.0, …, 207.0, 208.0, 209.0],\n"
                            + " [210.0, 211.0, 212.0, …, 237.0, 238.0, 239.0],\n"
                            + " [240.0, 241.0, 242.0, …, 267.0, 268.0, 269.0]]",
                    text(matrix).substring(text(matrix).indexOf("[[")));
            assertTrue(text(batch).contains("\nvalues at [0, …] \n[[[0.000, 1.000, 2.000, 3.000"), text(batch));
            assertTrue(text(batch).endsWith("88.00, 89.00]]]"), text(batch));
        }
    }

    @Test
    @Timeout(60) // reading each of the elements takes minutes
    void anExpandedTensorIsReadOnce() {
        try (Tensor column = Tensors.of(new float[] {1, 4}, 2, 1);
                Tensor expanded = column.expand(2, 200_000_000_000L)) {
            assertEquals(
                    "Tensor fp32 [2, 200000000000] on cpu\nmin 1.000  max 4.000  mean 2.500\nvalues \n"
                            + "[[1.000, 1.000, 1.000, …, 1.000, 1.000, 1.000],\n"
                            + " [4.000, 4.000, 4.000, …, 4.000, 4.000, 4.000]]",
                    text(expanded));
        }
    }

    private static Tensor closed() {
        Tensor tensor = Tensors.of(new float[] {1}, 1);
        tensor.close();
        return tensor;
    }
}
