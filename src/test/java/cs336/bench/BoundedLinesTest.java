package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BoundedLinesTest {
    private static List<String> lines(byte[] bytes) throws IOException {
        var lines = new ArrayList<String>();
        new BoundedLines(lines::add, 5, "!!", 8).read(new ByteArrayInputStream(bytes));
        return lines;
    }

    private static List<String> lines(String text) throws IOException {
        return lines(text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void linesEndLikeThoseOfABufferedReader() throws IOException {
        for (String text : List.of("", "\n", "a", "a\n", "a\nb", "a\r\nb\r\n", "a\rb\n\nc\r", "\r\n\r\n")) {
            assertEquals(text.lines().toList(), lines(text), text);
        }
    }

    @Test
    void longLinesAreDividedBetweenCharacters() throws IOException {
        assertEquals(List.of("abcde", "fghij", "k", "l"), lines("abcdefghijk\nl"));
        assertEquals(List.of("ßßß", "ß"), lines("ßßßß"));
        assertEquals(List.of("!!345678", "9"), lines("!!3456789"));
        assertEquals(List.of("!!3456", "!2345", "6"), lines("!!3456\n!23456"));
    }

    @Test
    void noBytesMakeALineLongerThanItsLimit() throws IOException {
        var random = new Random(3);
        for (int i = 0; i < 2_000; i++) {
            byte[] bytes = new byte[random.nextInt(60)];
            random.nextBytes(bytes);
            if (i % 2 == 0) {
                for (int j = 0; j < bytes.length; j++) {
                    bytes[j] = (byte) (0x80 | bytes[j] & 0x3F); // continues a character that never starts
                }
            }
            assertTrue(lines(bytes).stream().allMatch(line -> line.length() <= 8 + 4));
        }
    }
}
