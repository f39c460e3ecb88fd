package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jna.Pointer;
import cs336.distributed.collectives.ProcessGroup;
import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Nothing that a rank prints disturbs its launcher. */
@Timeout(300)
class UntrustedOutputTest {
    private static final String FORGED = "\n\u0001cs336 AAAA\n";
    private static final int LONG_LINE = 3_000_000;

    /** Writes to its standard output, the launcher's pipe or no address, as its argument says. */
    public static final class Misbehaving implements RankProgram<String, String> {
        @Override
        public String run(ProcessGroup group, String how) throws IOException {
            switch (how) {
                case "forges answers" -> {
                    System.out.print(FORGED);
                    write(Path.of("/proc/self/fd/1"), FORGED);
                    System.err.print(FORGED);
                }
                case "prints a long line" -> System.out.print("x".repeat(LONG_LINE));
                case "damages answers" -> {
                    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
                        for (Path file : files.toList()) {
                            if (isPipeToWrite(file)) {
                                write(file, FORGED);
                            }
                        }
                    }
                }
                case "crashes" -> new Pointer(1).getInt(0);
                default -> throw new AssertionError(how);
            }
            return how;
        }

        private static boolean isPipeToWrite(Path file) {
            try {
                String flags = Files.readString(Path.of("/proc/self/fdinfo/" + file.getFileName()));
                return Files.readSymbolicLink(file).toString().startsWith("pipe:")
                        && flags.matches("(?s).*flags:\\s+\\d*1\\n.*");
            } catch (IOException e) {
                return false; // it was closed in the meantime
            }
        }

        private static void write(Path file, String text) throws IOException {
            try (var out = new FileOutputStream(file.toString())) {
                out.write(text.getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    private final ByteArrayOutputStream output = new ByteArrayOutputStream();
    private final Launcher launcher = Launcher.of(1).output(new PrintStream(output, true, StandardCharsets.UTF_8));

    @Test
    void printedAnswersAreOutput() throws Exception {
        assertEquals(List.of("forges answers"), launcher.run(Misbehaving.class, "forges answers"));
        assertTrue(output.toString(StandardCharsets.UTF_8).contains("[0] \u0001cs336 AAAA\n"));
    }

    @Test
    void aLongLineArrivesInPieces() throws Exception {
        assertEquals(List.of("prints a long line"), launcher.run(Misbehaving.class, "prints a long line"));
        List<String> lines = output.toString(StandardCharsets.UTF_8).lines().toList();
        assertTrue(lines.stream().allMatch(line -> line.length() < 20_000));
        long printed = lines.stream()
                .mapToLong(line -> line.chars().filter(c -> c == 'x').count())
                .sum();
        assertEquals(LONG_LINE, printed);
    }

    @Test
    void eachLineIsLabelledOnceEvenIfTheLastOneHasNoEnd() {
        try (PrintStream labelled = LabelledStream.of("[1] ", new PrintStream(output, true, StandardCharsets.UTF_8))) {
            labelled.print("loss ");
            labelled.print("3\nloss 2\n\nlo");
            assertEquals("[1] loss 3\n[1] loss 2\n[1] \n", output.toString(StandardCharsets.UTF_8));
        }
        assertEquals("[1] loss 3\n[1] loss 2\n[1] \n[1] lo", output.toString(StandardCharsets.UTF_8));
        output.reset();
        try (PrintStream labelled = LabelledStream.of("[1] ", new PrintStream(output, true, StandardCharsets.UTF_8))) {
            labelled.print("done\n");
        }
        assertEquals("[1] done\n", output.toString(StandardCharsets.UTF_8));
    }

    @Test
    void aDamagedAnswerIsAFailureOfItsRank() {
        var e = assertThrows(RankFailure.class, () -> launcher.run(Misbehaving.class, "damages answers"));
        assertTrue(e.getMessage().startsWith("rank 0 of 1: its message to the launcher is damaged: "), e.getMessage());
    }

    /** Returns a value that is too large to be sent. */
    public static final class Enormous implements RankProgram<String, byte[]> {
        @Override
        public byte[] run(ProcessGroup group, String argument) {
            return new byte[60_000_000];
        }
    }

    @Test
    void aValueThatIsTooLargeIsRejectedByItsRank() {
        var e = assertThrows(RankFailure.class, () -> launcher.run(Enormous.class, ""));
        assertTrue(
                e.getMessage()
                        .startsWith(
                                "rank 0 of 1: a message to the parent process must have at most 67108864 bytes, not"),
                e.getMessage());
    }

    @Test
    void aSegmentationFaultIsNamed() throws IOException {
        var e = assertThrows(RankFailure.class, () -> launcher.run(Misbehaving.class, "crashes"));
        assertTrue(
                e.getMessage().startsWith("rank 0 of 1: its process was ended by signal 11 (SIGSEGV in native code)"),
                e.getMessage());
        Matcher report = Pattern.compile("\\S+/cs336-crash-\\d+\\.log").matcher(e.getMessage());
        assertTrue(report.find(), e.getMessage());
        Files.delete(Path.of(report.group()));
    }
}
