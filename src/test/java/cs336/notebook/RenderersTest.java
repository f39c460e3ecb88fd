package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import cs336.charts.Figure;
import cs336.torch.Tensors;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import javax.imageio.ImageIO;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
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
    void longCollectionsAreTruncatedAndShowTheirSize() {
        String shown = text(IntStream.range(0, 100_000).boxed().toList());
        assertTrue(shown.startsWith("[0, 1, 2,"), shown);
        assertTrue(shown.endsWith("… 100000 in total]"), shown);
        assertTrue(shown.length() < 1000, "length " + shown.length());
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

    @Test
    void longTablesAreTruncatedAndShowTheirSize() {
        Table table =
                Table.create(IntColumn.create("n", IntStream.range(0, 1000).toArray()));
        DisplayData shown = renderer.render(table);
        String html = (String) shown.getData(MIMEType.TEXT_HTML);
        assertEquals(1 + 50, html.split("<tr>", -1).length - 1);
        assertTrue(html.contains(">49<") && !html.contains(">50<") && html.contains("1000 rows in total"), html);
        assertTrue(shown.getData(MIMEType.TEXT_PLAIN).toString().endsWith("49\n… 1000 rows in total"));
    }

    private static XYChart chart(double last) {
        XYChart chart =
                new XYChartBuilder().width(300).height(200).title("Speed").build();
        chart.addSeries("one", new double[] {1, 2}, new double[] {3, last});
        return chart;
    }

    @Test
    void chartIsSvgAndPng() throws IOException {
        DisplayData shown = renderer.render(chart(4));
        String svg = (String) shown.getData(MIMEType.IMAGE_SVG);
        assertTrue(svg.startsWith("<svg ") && svg.contains("width='300' height='200'"), svg.substring(0, 200));
        byte[] png = Base64.getDecoder().decode((String) shown.getData(MIMEType.IMAGE_PNG));
        BufferedImage image = ImageIO.read(new ByteArrayInputStream(png));
        assertEquals(600, image.getWidth());
        assertEquals("chart \"Speed\"", shown.getData(MIMEType.TEXT_PLAIN));
    }

    @Test
    void figureIsSvgAndPngOfItsOwnSize() throws IOException {
        DisplayData shown = renderer.render(new Figure("speed", "How fast it is.", 400, 300, List.of(chart(4))));
        assertTrue(shown.getData(MIMEType.IMAGE_SVG).toString().contains("<svg "));
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
        String one = (String) renderer.render(chart(4)).getData(MIMEType.IMAGE_SVG);
        String same = (String) renderer.render(chart(4)).getData(MIMEType.IMAGE_SVG);
        String other = (String) renderer.render(chart(5)).getData(MIMEType.IMAGE_SVG);
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
                    "Tensor fp32 [2, 3] on cpu\nmin 1.000  max 6.000  mean 3.500\nfirst row [1.000, 2.000, 3.000]",
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

    private static Tensor closed() {
        Tensor tensor = Tensors.of(new float[] {1}, 1);
        tensor.close();
        return tensor;
    }
}
