package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.profile.FoldedStacks.Stack;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class FoldedStacksTest {
    @TempDir
    private Path folder;

    @Test
    void stacksReadBackAsWritten() throws IOException {
        FoldedStacks stacks = FoldedStacks.of(List.of(
                new Stack(List.of("main", "aten::mm", "void f<int, 4>(float const*)"), 12),
                new Stack(List.of("main"), 3),
                new Stack(List.of("größer"), 1)));
        Path file = folder.resolve("s.folded");
        stacks.write(file);
        assertEquals("main;aten::mm;void f<int, 4>(float const*) 12\nmain 3\ngrößer 1\n", Files.readString(file));
        assertEquals(stacks.stacks(), FoldedStacks.read(file).stacks());
        assertEquals(16, FoldedStacks.read(file).total());
    }

    @Test
    void equalStacksAreSummedAtTheirFirstOccurrence() {
        var a = new Stack(List.of("a"), 1);
        var ab = new Stack(List.of("a", "b"), 5);
        FoldedStacks sum = FoldedStacks.of(List.of(a, ab, a, new Stack(List.of("a", "b"), 2)));
        assertEquals(List.of(new Stack(List.of("a"), 2), new Stack(List.of("a", "b"), 7)), sum.stacks());
    }

    @Test
    void filesMayHaveCommentsAndEmptyLines() throws IOException {
        Path file = folder.resolve("other.folded");
        Files.writeString(file, "# perf\n\njava;Thread.run ;[unknown] 41\r\nswapper 7  \n");
        assertEquals(
                List.of(new Stack(List.of("java", "Thread.run ", "[unknown]"), 41), new Stack(List.of("swapper"), 7)),
                FoldedStacks.read(file).stacks());
    }

    @ParameterizedTest
    @ValueSource(strings = {"a;b", "a;b x", "12", "a;;b 3", "a -3", ";a 3", "a;b 1.5"})
    void theErrorNamesALineThatIsNotAStack(String line) throws IOException {
        Path file = folder.resolve("bad.folded");
        Files.writeString(file, "a 1\n" + line + "\n");
        var e = assertThrows(IllegalArgumentException.class, () -> FoldedStacks.read(file));
        assertTrue(e.getMessage().startsWith(file + ", line 2 is not a folded stack"), e.getMessage());
    }

    @Test
    void framesAreSingleLinesWithoutSeparators() {
        assertThrows(IllegalArgumentException.class, () -> new Stack(List.of("a;b"), 1));
        assertThrows(IllegalArgumentException.class, () -> new Stack(List.of("a\nb"), 1));
        assertThrows(IllegalArgumentException.class, () -> new Stack(List.of(), 1));
        assertThrows(IllegalArgumentException.class, () -> new Stack(List.of("a"), -1));
    }

    @Test
    void namesFromATraceAreEscaped() {
        Trace trace = new TraceText()
                .op(TraceText.MAIN, "a;b\\nc", 0, 5)
                .op(TraceText.MAIN, "", 10, 12)
                .read();
        assertEquals(
                "a:b c 5\n? 2\n", FoldedStacks.of(trace, FoldedStacks.Time.CPU).toString());
    }
}
