package cs336.scaling.laws;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class IsoFlopsTest {
    @TempDir
    Path folder;

    private Path file(String text) throws IOException {
        return Files.writeString(folder.resolve("runs.json"), text);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '"', textBlock = """
                    [] | there are no runs
                    {"runs": []} | the root must be an array of runs, not {"runs":[]}
                    [7] | run 1: a run must be an object, not 7
                    [{"parameters": 1e8, "compute_budget": 1e18}] | run 1: final_loss is missing; the fields are parameters, compute_budget
                    [{"parameters": 1e8, "compute_budget": 1e18, "final_loss": -3}] | run 1: final_loss must be above 0 nats per token, not -3.0
                    [{"parameters": 1e8, "compute_budget": 1e999, "final_loss": 3}] | run 1: compute_budget must be above 0 FLOP, not Infinity
                    [{"parameters": 0, "compute_budget": 1e18, "final_loss": 3}] | run 1: parameters must be above 0, not 0
                    [{"parameters": 1.5, "compute_budget": 1e18, "final_loss": 3}] | run 1: parameters must be a whole number below 2^63, not 1.5
                    [{"parameters": "100M", "compute_budget": 1e18, "final_loss": 3}] | run 1: parameters must be a number without a unit, not "100M"
                    [{"parameters": 1e8, "compute_budget": null, "final_loss": 3}] | run 1: compute_budget must be a number without a unit, not null
                    [{"parameters": 1e8, "compute_budget": 0.5, "final_loss": 3}] | run 1: compute_budget must be in FLOP: 0.5 is enough for 8e-10 tokens of a model of 100000000 parameters
                    [{"parameters": 1e8, "compute_budget": 1e18, "final_loss": 3, "unit": "bits"}] | run 1: fields must be parameters, compute_budget, final_loss, not unit
                    """)
    void invalidRunsAreRejectedByRunAndField(String text, String message) throws IOException {
        Path file = file(text);
        var refused = assertThrows(IllegalArgumentException.class, () -> IsoFlops.read(file));
        assertEquals(file + ": " + message, refused.getMessage().replace("e+", "e"));
    }

    @Test
    void invalidJsonAndMissingFilesAreRejected() throws IOException {
        for (String text : List.of("", "[", "[1] 2", "[NaN]", "[{\"parameters\": 1, \"parameters\": 2}]")) {
            Path file = file(text);
            var refused = assertThrows(IllegalArgumentException.class, () -> IsoFlops.read(file), text);
            assertTrue(refused.getMessage().startsWith(file + ": the file is not JSON: "), refused.getMessage());
        }
        assertThrows(NoSuchFileException.class, () -> IsoFlops.read(folder.resolve("none.json")));
    }

    @Test
    void aBudgetWithTwoSizesIsRejected() {
        var runs = Stream.of(1e18, 1e19, 1e20)
                .flatMap(c -> Stream.of(100_000_000L, 200_000_000L, c == 1e19 ? 200_000_000L : 400_000_000L)
                        .map(n -> new TrainingRun(n, c, 3)))
                .toList();
        var refused = assertThrows(IllegalArgumentException.class, () -> new IsoFlops(runs).profiles());
        assertEquals("compute_budget 1e19 must have runs of at least 3 sizes, not 2", refused.getMessage());
        var one = new IsoFlops(runs.subList(0, 3));
        assertEquals(
                "compute_budget must take at least 3 values, not 1 (1e18)",
                assertThrows(IllegalArgumentException.class, one::profiles).getMessage());
    }

    @Test
    void writtenRunsAreReadBackUnchanged() throws IOException {
        IsoFlops drawn = SyntheticRuns.SHIPPED.seeded(5).draw();
        assertEquals(drawn, IsoFlops.read(file(drawn.json())));
    }

    @Test
    void theRepositorysRunsAreGeneratedByteForByte() throws IOException, NoSuchAlgorithmException {
        byte[] json = SyntheticRuns.SHIPPED.draw().json().getBytes(StandardCharsets.UTF_8);
        assertArrayEquals(json, Files.readAllBytes(Project.path(SyntheticRuns.FILE)));
        assertNotEquals(IsoFlops.COURSE_FILE, SyntheticRuns.FILE, "the course's file has other runs");
        assertEquals(
                "261ed24bdc4760d60a5bb307e23e250816948544d37a8ef17cd422a714001a02",
                HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(json)));
    }

    @Test
    void theRepositorysRunsAreNineProfilesWithTheirMinimaInside() {
        List<IsoFlopProfile> profiles = SyntheticRuns.SHIPPED.draw().profiles();
        assertEquals(9, profiles.size());
        for (IsoFlopProfile profile : profiles) {
            assertEquals(8, profile.runs().size());
            assertTrue(profile.brackets(profile.lowest().parameters()), "" + profile.compute());
            assertTrue(profile.brackets(
                    SyntheticRuns.SHIPPED.surface().law().at(profile.compute()).parameters()));
            assertFalse(profile.brackets(profile.runs().get(0).parameters()));
        }
    }

    @Test
    void theNoiseHasTheGivenStandardDeviation() {
        double squares = 0;
        int n = 0;
        for (long seed = 0; seed < 20; seed++) {
            for (TrainingRun run : SyntheticRuns.SHIPPED.seeded(seed).draw().runs()) {
                double exact = SyntheticRuns.SHIPPED.surface().loss(run.parameters(), run.tokens());
                squares += Math.pow(Math.log(run.loss() / exact), 2);
                n++;
            }
        }
        assertEquals(0.002, Math.sqrt(squares / n), 0.002 * 4 / Math.sqrt(2 * n));
    }
}
