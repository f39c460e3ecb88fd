package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HelloTest {
    @Test
    void ranksPrintTheirPositionAndStopInTheSameRound() throws Exception {
        var printed = new ByteArrayOutputStream();
        List<Integer> rounds = Launcher.of(2)
                .output(new PrintStream(printed, true, StandardCharsets.UTF_8))
                .run(Hello.class, new String[] {"2"});
        assertEquals(rounds.get(0), rounds.get(1));
        assertTrue(rounds.get(0) > 2, rounds.toString());
        String text = printed.toString(StandardCharsets.UTF_8);
        for (int rank = 0; rank < 2; rank++) {
            assertTrue(text.contains("hello from rank %d of 2, local rank %d of 2 on ".formatted(rank, rank)), text);
            assertTrue(text.contains("rank %d: %,d all-reduces".formatted(rank, rounds.get(0))), text);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"minutes", "-1", "1.5", "1 2"})
    void invalidSecondsAreRejected(String argument) {
        var error = assertThrows(IllegalArgumentException.class, () -> new Hello().run(null, argument.split(" ")));
        assertEquals("argument must be a number of seconds or absent, not '" + argument + "'", error.getMessage());
    }
}
