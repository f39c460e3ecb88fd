package cs336.charts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.numbers.MadeUpMeasurements;
import java.awt.Color;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import javax.imageio.ImageIO;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.knowm.xchart.XYChart;

class FigureTest {
    /** Writes the sample figures into the folder given as the first argument. */
    public static void main(String[] arguments) {
        MadeUpMeasurements.figures().forEach(figure -> figure.save(Path.of(arguments[0])));
    }

    @Test
    void filesAreIdenticalInAJvmWithAnotherLocaleAndWithoutFonts(@TempDir Path folder) throws IOException {
        String output = OtherJvm.run(FigureTest.class, Map.of(), folder.toString());
        for (Figure figure : MadeUpMeasurements.figures()) {
            String svg = figure.svg();
            assertEquals(svg, figure.svg(), figure.name());
            Path other = folder.resolve(figure.name() + ".svg");
            assertTrue(Files.exists(other), output);
            assertEquals(svg, Files.readString(other), figure.name());
        }
    }

    @Test
    void figuresAreSmallWellFormedAndSelfContained() throws Exception {
        for (Figure figure : MadeUpMeasurements.figures()) {
            String svg = figure.svg();
            assertTrue(svg.getBytes(StandardCharsets.UTF_8).length < 200_000, figure.name() + " " + svg.length());
            assertFalse(svg.contains("<text"), "letters must be outlines");
            assertFalse(svg.contains("font-family"));
            assertFalse(svg.replaceAll("xmlns(:xlink)?=\"[^\"]*\"", "").contains("http"));
            var document = DocumentBuilderFactory.newInstance()
                    .newDocumentBuilder()
                    .parse(new ByteArrayInputStream(svg.getBytes(StandardCharsets.UTF_8)));
            assertEquals("svg", document.getDocumentElement().getTagName());
            assertEquals(
                    "made up", document.getElementsByTagName("title").item(0).getTextContent());
        }
    }

    @Test
    void aFileIsReplacedAtOnceAndNothingElseRemains(@TempDir Path folder) throws IOException {
        Figure figure = MadeUpMeasurements.figures().get(0);
        Path file = folder.resolve(figure.name() + ".svg");
        Files.writeString(file, "before");
        try (InputStream open = Files.newInputStream(file)) {
            figure.save(folder);
            assertEquals(
                    "before", new String(open.readAllBytes(), StandardCharsets.UTF_8), "the old file is unchanged");
        }
        assertEquals(figure.svg(), Files.readString(file));
        Path elsewhere = Files.createDirectory(folder.resolve("elsewhere")).resolve("target.svg");
        Files.move(file, elsewhere);
        Files.createSymbolicLink(file, elsewhere);
        figure.save(folder);
        assertTrue(Files.isSymbolicLink(file));
        assertEquals(figure.svg(), Files.readString(elsewhere));
        try (Stream<Path> files = Files.walk(folder)) {
            assertEquals(4, files.count(), "the folders, the figure and the link");
        }
    }

    @Test
    void aFileThatCannotBeReplacedIsUnchanged(@TempDir Path folder) throws IOException {
        Figure figure = MadeUpMeasurements.figures().get(0);
        Path file = Files.createDirectory(folder.resolve(figure.name() + ".svg"));
        Files.writeString(file.resolve("note"), "in a folder of the figure's name");
        assertThrows(UncheckedIOException.class, () -> figure.save(folder));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(List.of(file), files.toList(), "no temporary file remains");
        }
    }

    @Test
    void seriesUseThePaletteInOrder() {
        String svg = MadeUpMeasurements.figures().get(1).svg();
        int last = -1;
        for (Color color : ChartStyle.PALETTE.subList(0, 5)) {
            int at = svg.indexOf("rgb(" + color.getRed() + "," + color.getGreen() + "," + color.getBlue() + ")");
            assertTrue(at > last, color + " at " + at);
            last = at;
        }
    }

    @Test
    void eightKindsOfATimelineHaveDifferentColours() {
        assertEquals(
                8, IntStream.range(0, 8).mapToObj(ChartStyle::color).distinct().count());
    }

    @Test
    void aPngHasTheRequestedSizeAndAWhiteBackground() throws IOException {
        Figure figure = MadeUpMeasurements.figures().get(2);
        BufferedImage image = ImageIO.read(new ByteArrayInputStream(figure.png(2)));
        assertEquals(1280, image.getWidth());
        assertEquals(760, image.getHeight());
        assertEquals(Color.WHITE.getRGB(), image.getRGB(0, 0));
        assertEquals(Color.WHITE.getRGB(), image.getRGB(1279, 759));
        boolean blue = false;
        for (int x = 0; x < 1280; x++) {
            for (int y = 0; y < 760; y++) {
                blue |= image.getRGB(x, y) == ChartStyle.PALETTE.get(0).getRGB();
            }
        }
        assertTrue(blue, "no point of the first series");
        assertThrows(IllegalArgumentException.class, () -> figure.png(0));
    }

    @Test
    void anyXChartCanBeAFigure() {
        var chart = new XYChart(800, 600);
        chart.addSeries("made up", new double[] {1, 2}, new double[] {3, 4});
        chart.getStyler().setLegendFont(ChartStyle.smallFont());
        Figure figure = Figure.of("own", "made up", chart);
        assertTrue(figure.svg().contains("width=\"400\" height=\"300\""));
        assertEquals(chart, figure.chart());
    }

    @Test
    void nameAndDescriptionAreChecked() {
        var chart = List.of(new XYChart(800, 600));
        for (String name : List.of("", "Upper", "a b", "../a", "a--b", "a.svg")) {
            var error =
                    assertThrows(IllegalArgumentException.class, () -> new Figure(name, "made up", 400, 300, chart));
            assertTrue(error.getMessage().contains("\"" + name + "\""), error.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> new Figure("a", " ", 400, 300, chart));
        assertThrows(IllegalArgumentException.class, () -> new Figure("a", "made up", 40, 300, chart));
        assertThrows(IllegalArgumentException.class, () -> new Figure("a", "made up", 400, 300, List.of()));
    }
}
