package cs336.charts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.awt.Font;
import java.awt.font.FontRenderContext;
import java.awt.font.TextLayout;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

class TypefaceTest {
    /** Loads a logical font, after {@link Typeface#prepare} if the argument is {@code prepared}. */
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("prepared")) {
            Typeface.prepare();
        }
        System.out.println("width " + widthOfDigits());
    }

    private static double widthOfDigits() {
        var font = new Font("SansSerif", Font.PLAIN, 100);
        return new TextLayout("123", font, new FontRenderContext(null, true, true)).getAdvance();
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void withoutInstalledFontsLogicalFontsAreTheBundledOnes() throws IOException {
        String expected = "width " + ChartStyle.width("123", Typeface.REGULAR.font(100));
        assertEquals(
                expected, OtherJvm.run(TypefaceTest.class, Map.of(), "prepared").strip());
        String unprepared = OtherJvm.run(TypefaceTest.class, Map.of(), "unprepared");
        assertTrue(unprepared.contains("Exception") && !unprepared.contains("width "), unprepared);
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void aFontConfigurationOfTheUserIsKept(@TempDir Path folder) throws IOException {
        String missing = folder.resolve("missing").toString();
        String output = OtherJvm.run(TypefaceTest.class, Map.of("sun.awt.fontconfig", missing), "prepared");
        assertTrue(output.contains("Exception") && !output.contains("width "), output);
    }

    @Test
    void allDigitsHaveTheSameWidth() {
        for (Typeface face : Typeface.values()) {
            for (char digit = '1'; digit <= '9'; digit++) {
                assertEquals(
                        ChartStyle.width("0", face.font(1000)),
                        ChartStyle.width("" + digit, face.font(1000)),
                        1e-9,
                        face + " " + digit);
            }
        }
    }

    @Test
    void symbolsOfMeasurementsHaveGlyphs() {
        assertEquals(-1, Typeface.REGULAR.unknownCharacter("×±µ−√σβθ≤≥²³→∞·–—…\u00a0\u202f"));
        assertEquals('∇', Typeface.REGULAR.unknownCharacter("a ∇"));
    }
}
