package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import cs336.charts.OtherJvm;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FlameGraphTest {
    private static final String STACKS = """
            main;layers.1;aten::mm;sgemm 600000000
            main;layers.0;aten::mm;sgemm 500000000
            main;layers.1;aten::mul;void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, \
            at::native::binary_internal::MulFunctor<float> > >(int) 100000000
            main 300000000
            ]]> & <"é"> 1
            """;

    /** Draws the graph of {@link #STACKS} into the file named by the argument. */
    public static void main(String[] arguments) throws IOException {
        Path stacks = Files.createTempFile("stacks", ".folded");
        Files.writeString(stacks, STACKS);
        graph(stacks).save(Path.of(arguments[0]));
        Files.delete(stacks);
    }

    private static FlameGraph graph(Path stacks) throws IOException {
        return FlameGraph.of(FoldedStacks.read(stacks)).title("A < B & C");
    }

    private static FlameGraph graphIn(Path folder) throws IOException {
        return graph(Files.writeString(folder.resolve("stacks.folded"), STACKS));
    }

    @Test
    void frameWidthsAreSumsAndSiblingsKeepTheOrderOfTheirFirstCalls(@TempDir Path folder) throws IOException {
        assertEquals(
                List.of(
                        new FlameGraph.FlameFrame("all", 0, 0, 1_500_000_001, false),
                        new FlameGraph.FlameFrame("main", 1, 0, 1_500_000_000, false),
                        new FlameGraph.FlameFrame("layers.1", 2, 0, 700_000_000, false),
                        new FlameGraph.FlameFrame("aten::mm", 3, 0, 600_000_000, false),
                        new FlameGraph.FlameFrame("sgemm", 4, 0, 600_000_000, true),
                        new FlameGraph.FlameFrame("aten::mul", 3, 600_000_000, 100_000_000, false)),
                graphIn(folder).frames().subList(0, 6));
    }

    @Test
    void theFractionCountsNestedMatchesOnce(@TempDir Path folder) throws IOException {
        FlameGraph graph = graphIn(folder);
        assertEquals(1.1 / 1.5, graph.fraction("aten::MM"), 1e-8);
        assertEquals(1.2 / 1.5, graph.fraction("layers."), 1e-8, "each layer, nested matches once");
        assertEquals(1, graph.fraction("MAIN"), 1e-8, "it contains all but a nanosecond");
        assertEquals(0, graph.fraction("softmax"));
    }

    @Test
    void theBytesDoNotDependOnTheLocaleOrInstalledFonts(@TempDir Path folder) throws IOException {
        Path other = folder.resolve("other.svg");
        String output = OtherJvm.run(FlameGraphTest.class, Map.of(), other.toString());
        assertTrue(Files.exists(other), output);
        assertEquals(graphIn(folder).svg(), Files.readString(other));
    }

    @Test
    void theFileIsWellFormedSelfContainedAndIncludesAStaticPicture(@TempDir Path folder) throws Exception {
        String svg = graphIn(folder).svg();
        var document = DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(new ByteArrayInputStream(svg.getBytes(StandardCharsets.UTF_8)));
        assertEquals(
                "Flame graph: A < B & C",
                document.getElementsByTagName("title").item(0).getTextContent());
        assertEquals(1, document.getElementsByTagName("script").getLength());
        assertFalse(svg.replaceAll("xmlns(:xlink)?=\"[^\"]*\"|\"http://www.w3.org/[^\"]*\"", "")
                .contains("http"));
        String still = svg.substring(svg.indexOf("flamegraph-frames"), svg.indexOf("<script"));
        // all, main, two layers, their operators (3) and kernels (3); the frame of one nanosecond is too narrow
        assertEquals(10, Pattern.compile("<rect").matcher(still).results().count());
    }

    @Test
    void theScriptGetsAllFramesWithValuesAndCharacterWidths(@TempDir Path folder) throws IOException {
        String svg = graphIn(folder).svg();
        int begin = svg.indexOf("const data = ") + "const data = ".length();
        JsonObject data = JsonParser.parseString(svg.substring(begin, svg.indexOf(";\n", begin)))
                .getAsJsonObject();
        JsonArray names = data.getAsJsonArray("names");
        JsonArray second = data.getAsJsonArray("frames").get(2).getAsJsonArray();
        assertEquals("layers.1", names.get(second.get(0).getAsInt()).getAsString());
        assertEquals(700_000_000, second.get(2).getAsLong());
        assertEquals("ms", data.get("unit").getAsString());
        JsonArray last = data.getAsJsonArray("frames")
                .get(data.getAsJsonArray("frames").size() - 1)
                .getAsJsonArray();
        assertEquals("]]> & <\"é\">", names.get(last.get(0).getAsInt()).getAsString());
        assertTrue(data.getAsJsonObject("advances").get("é").getAsDouble() > 0);
        assertTrue(data.getAsJsonObject("labels").toString().contains("vectorized_elementwise_kernel: Mul"));
    }

    @Test
    void valuesAreShownInMilliseconds() {
        FlameGraph graph = FlameGraph.of(FoldedStacks.of(List.of(new FoldedStacks.Stack(List.of("a"), 1))));
        assertEquals("1.235 ms", graph.amount(1_234_567));
    }

    @Test
    void emptyStacksAreRejected() {
        FoldedStacks none = FoldedStacks.of(List.of());
        assertThrows(IllegalArgumentException.class, () -> FlameGraph.of(none));
    }
}
