package cs336.train;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class TrainCommandTest {
    private static final String SENTENCE = "the quick brown fox jumps over the lazy dog. ";

    @TempDir
    Path folder;

    private final StringWriter out = new StringWriter();
    private String error;

    private int run(String... more) throws IOException {
        Path text = folder.resolve("text.txt");
        Files.writeString(text, SENTENCE.repeat(20));
        var arguments = new ArrayList<>(List.of("--text", text.toString(), "--device", "cpu", "--batch", "2"));
        arguments.addAll(
                List.of("--d-model", "16", "--layers", "1", "--heads", "2", "--vocab", "256", "--context", "8"));
        arguments.addAll(List.of(more));
        return new CommandLine(new TrainCommand())
                .setOut(new PrintWriter(out))
                .setParameterExceptionHandler((e, a) -> {
                    error = e.getMessage();
                    return 2;
                })
                .execute(arguments.toArray(String[]::new));
    }

    private List<Double> losses() {
        Matcher loss = Pattern.compile("loss (\\S+)").matcher(out.toString());
        var losses = new ArrayList<Double>();
        while (loss.find()) {
            losses.add(Double.parseDouble(loss.group(1)));
        }
        return losses;
    }

    @Test
    void theLossOfARepeatedSentenceFalls() throws IOException {
        assertEquals(0, run("--steps", "120", "--lr", "1e-2", "--log-every", "20"));
        List<Double> losses = losses();
        assertEquals(6, losses.size());
        assertTrue(losses.get(0) > 3 && losses.get(5) < 2, losses.toString());
    }

    @Test
    void aResumedRunEqualsAnUninterruptedOneBitForBit() throws IOException {
        Path whole = folder.resolve("whole.safetensors");
        Path halves = folder.resolve("halves.safetensors");
        assertEquals(0, run("--steps", "12", "--warmup", "3", "--checkpoint", whole.toString()));
        String[] half = {"--steps", "6", "--decay-steps", "12", "--warmup", "3", "--checkpoint", halves.toString()};
        assertEquals(0, run(half));
        assertEquals(0, run("--steps", "12", "--warmup", "3", "--checkpoint", halves.toString(), "--resume"));
        assertArrayEquals(Files.readAllBytes(whole), Files.readAllBytes(halves));
        assertEquals(0, run("--steps", "12", "--checkpoint", halves.toString(), "--resume"));
        assertTrue(out.toString().endsWith("was saved after step 12: nothing is left of --steps 12\n"), out.toString());
    }

    @Test
    void wrongUseIsOneLine() throws IOException {
        assertEquals(2, run("--steps", "0"));
        assertEquals("--steps must be at least 1, not 0", error);
        assertEquals(2, run("--vocab", "100"));
        assertEquals(2, run("--clip", "0"));
        assertEquals("--clip must be positive, not 0.0", error);
        assertEquals(2, run("--lr", "-1"));
        assertEquals("--lr must be finite and at least 0, not -1.0", error);
        assertEquals(2, run("--decay-steps", "0"));
        assertEquals("--decay-steps must be at least 1, not 0", error);
        assertEquals(2, run("--warmup", "2147483647"));
        assertEquals("--warmup must be below 2147483647", error);
        assertEquals(2, run("--resume"));
        assertEquals("--resume needs --checkpoint <file>", error);
        assertEquals(2, run("--size", "small,large"));
        assertEquals("--size, --context, --normalization and --attention must select one model, not 2", error);
        assertEquals(2, run("--checkpoint", folder.resolve("none/x.safetensors").toString()));
        assertTrue(error.startsWith("--checkpoint must be"), error);
    }
}
