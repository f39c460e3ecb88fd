package cs336.scaling.laws;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import cs336.bench.Project;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class IsoFlopsCommandTest extends CommandTest {
    private String shipped;

    @BeforeEach
    void writeTheRepositorysRuns() throws IOException {
        shipped = Files.writeString(
                        folder.resolve("shipped.json"),
                        SyntheticRuns.SHIPPED.draw().json())
                .toString();
    }

    private static double value(Table table, String method, String metric, double compute) {
        for (Row row : table) {
            boolean at = Double.isNaN(compute) || row.getDouble("compute") == compute;
            if (at
                    && row.getString("implementation").equals(method)
                    && row.getString("metric").equals(metric)) {
                return row.getDouble("mean");
            }
        }
        throw new AssertionError("no " + metric + " of " + method + " at " + compute);
    }

    private static double value(Table table, String method, String metric) {
        return value(table, method, metric, Double.NaN);
    }

    @Test
    void storedResultsAreThoseOfTheMethods() throws IOException {
        assertEquals(0, run(new IsoFlopsCommand(), "--resamples 100 --store here", "--runs", shipped));
        assertTrue(
                out.toString()
                        .startsWith(
                                "Runs: " + shipped
                                        + "\n72 runs of 9 budgets. Noise: the standard deviation of the losses from the surface is 0.20 %.\n"),
                out.toString());
        Table laws = Measurements.read(folder.resolve("any/isoflops_laws.csv"));
        Table optima = Measurements.read(folder.resolve("any/isoflops_optima.csv"));
        IsoFlops runs = IsoFlops.read(Path.of(shipped));
        for (FitMethod method : FitMethod.values()) {
            ScalingFit fit = method.fit(runs, new Bootstrap(0.95, 100, 336));
            assertEquals(fit.law().exponent(), value(laws, method.toString(), "exponent"), 1e-8);
            assertEquals(fit.exponent().low(), value(laws, method.toString(), "exponent-low"), 1e-8);
            double parameters = fit.law().at(1e24).parameters();
            assertEquals(1, value(optima, method.toString(), "parameters", 1e24) / parameters, 1e-8);
            assertEquals(1, value(optima, method.toString(), "tokens", 1e24) * 6 * parameters / 1e24, 1e-8);
        }
        assertEquals(75e6, value(optima, "lowest-run", "minimum", 1e18));
    }

    @Test
    void resultsOfANameAreThoseOfItsLastRuns() throws IOException {
        String store = "--resamples 100 --store mine";
        assertEquals(0, run(new IsoFlopsCommand(), store + " --compute 2e25", "--runs", shipped));
        assertEquals(0, run(new IsoFlopsCommand(), store.replace("mine", "other"), "--runs", shipped));
        IsoFlops drawn = SyntheticRuns.SHIPPED.seeded(7).draw();
        var fewer = new IsoFlops(
                drawn.runs().stream().filter(run -> run.compute() > 2e18).toList());
        String file =
                Files.writeString(folder.resolve("fewer.json"), fewer.json()).toString();
        assertEquals(0, run(new IsoFlopsCommand(), store, "--runs", file));
        Table laws = Measurements.read(folder.resolve("any/isoflops_laws.csv"));
        Table optima = Measurements.read(folder.resolve("any/isoflops_optima.csv"));
        Table mine = laws.where(laws.stringColumn("runs").isEqualTo("mine"));
        assertEquals(1, mine.stringColumn("sha256").unique().size());
        mine = optima.where(optima.stringColumn("runs").isEqualTo("mine"));
        assertFalse(mine.doubleColumn("compute").contains(2e25), "a prediction of the runs before");
        Table smallest = mine.where(mine.doubleColumn("compute").isEqualTo(1e18));
        assertFalse(smallest.stringColumn("metric").contains("minimum"), "a minimum of the runs before");
        assertTrue(mine.stringColumn("metric").contains("minimum"));
        Table other = optima.where(optima.stringColumn("runs").isEqualTo("other"));
        assertTrue(other.rowCount() > mine.rowCount());
    }

    @Test
    @Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD) // a pipe without a writer blocks
    void aPipeIsFittedButNotStored() throws Exception {
        Path pipe = folder.resolve("pipe");
        assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
        var writer =
                new Thread(() -> assertDoesNotThrow(() -> Files.write(pipe, Files.readAllBytes(Path.of(shipped)))));
        writer.start();
        assertEquals(0, runWithoutOutput(new IsoFlopsCommand(), "--resamples 100 --runs " + pipe), err::toString);
        writer.join();
        assertEquals(1, run(new IsoFlopsCommand(), "--resamples 100 --store piped --runs " + pipe));
        assertTrue(progress.toString(StandardCharsets.UTF_8).contains("must be a regular file, not a pipe"));
    }

    @Test
    void theLossSurfaceIsFittedToRunsOfUnequalBudgets() throws IOException {
        List<TrainingRun> unequal = new ArrayList<>();
        for (TrainingRun run : SyntheticRuns.SHIPPED.draw().runs()) {
            double compute = run.compute() * (1 + 1e-3 * unequal.size());
            unequal.add(new TrainingRun(run.parameters(), compute, run.loss()));
        }
        var runs = new IsoFlops(unequal);
        String file =
                Files.writeString(folder.resolve("unequal.json"), runs.json()).toString();
        assertEquals(
                0,
                runWithoutOutput(new IsoFlopsCommand(), "--resamples 100 --method loss-surface", "--runs", file),
                err::toString);
        double exponent = FitMethod.LOSS_SURFACE
                .fit(IsoFlops.read(Path.of(file)), new Bootstrap(0.95, 100, 336))
                .law()
                .exponent();
        assertTrue(out.toString().startsWith("Runs: " + file + "\n72 runs.\n"), out.toString());
        assertTrue(out.toString().contains("%.3f".formatted(exponent)), exponent + " is not in " + out);
        assertFalse(out.toString().contains("lowest-run"), out.toString());
        assertEquals(2, runWithoutOutput(new IsoFlopsCommand(), "--resamples 100 --method lowest-run", "--runs", file));
        assertTrue(err.toString().contains("sizes"), err.toString());
    }

    @ParameterizedTest
    @CsvSource({"0.95, 95", "0.999, 99.9", "0.5, 50", "0.9999, 99.99"})
    void confidencesHaveAllDigits(double confidence, String percentage) {
        assertEquals(
                0,
                runWithoutOutput(
                        new IsoFlopsCommand(), "--resamples 100 --confidence " + confidence, "--runs", shipped));
        assertTrue(out.toString().contains("intervals of " + percentage + " %:"), out.toString());
    }

    @Test
    void generatedRunsCanBeFitted() {
        String other = folder.resolve("other.json").toString();
        assertEquals(0, runWithoutOutput(new IsoFlopsCommand(), "--seed 7", "--generate", other));
        assertEquals(0, runWithoutOutput(new IsoFlopsCommand(), "--resamples 100", "--runs", other), err.toString());
        assertTrue(Files.notExists(folder.resolve("any")), "stored without --store");
    }

    @Test
    void coverageIsCountedAndStored() throws IOException {
        assertEquals(0, run(new IsoFlopsCommand(), "--coverage 8 --resamples 100 --confidence 0.5 --store half"));
        Table table = Measurements.read(folder.resolve("any/isoflops_coverage.csv"));
        double truth = 0.345 / (0.335 + 0.345);
        int hold = 0;
        for (long seed = 1; seed <= 8; seed++) {
            IsoFlops runs = SyntheticRuns.SHIPPED.seeded(seed).draw();
            Interval interval =
                    FitMethod.LOWEST_RUN.fit(runs, new Bootstrap(0.5, 100, 336)).exponent();
            if (interval.low() <= truth && truth <= interval.high()) {
                hold++;
            }
        }
        assertTrue(0 < hold && hold < 8, "the test cannot fail with " + hold);
        assertEquals(hold / 8.0, value(table, "lowest-run", "exponent"));
        assertEquals(8, value(table, "quadratic-minima", "sets"));
        assertEquals(1, value(table, "lowest-run", "true-parameters") / 9.861618862964e10, 1e-9);
    }

    @Test
    void wrongUseFailsWithOneSentence() throws IOException {
        assertEquals(2, runWithoutOutput(new IsoFlopsCommand(), "--compute 0", "--runs", shipped));
        assertEquals(2, runWithoutOutput(new IsoFlopsCommand(), "--confidence 95", "--runs", shipped));
        assertEquals(2, runWithoutOutput(new IsoFlopsCommand(), "--resamples 3", "--runs", shipped));
        assertEquals(2, run(new IsoFlopsCommand(), "--store a/b", "--runs", shipped));
        Path empty = Files.writeString(folder.resolve("empty.json"), "[]");
        assertEquals(2, runWithoutOutput(new IsoFlopsCommand(), "--resamples 100", "--runs", empty.toString()));
        assertEquals(
                "--compute must be finite and above 0 FLOP, not 0.0"
                        + "--confidence must be between 0 and 1, not 95.0"
                        + "--resamples must be between 100 and 1000000, not 3"
                        + "--store must be letters, digits, '_' and '-', not 'a/b'"
                        + empty + ": there are no runs",
                err.toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "--resamples 2147483647 | --resamples must be between 100 and 1000000, not 2147483647",
                "--method parabola | --method 'parabola' is unknown; known: lowest-run, quadratic-minima, loss-surface",
                "--method loss-surface --store x | --store stores the results of all methods; omit --method",
                "--coverage 2 --method loss-surface | --method has no effect with --coverage",
                "--coverage 0 | --coverage must be at least 1, not 0",
                "--coverage 2 --compute 1e22 | --compute has no effect with --coverage",
                "--generate x.json --store here | --store has no effect with --generate",
                "--compute Infinity | --compute must be finite and above 0 FLOP, not Infinity",
                "--generate x.json --coverage 2 | --coverage has no effect with --generate",
            })
    void wrongUseNamesTheOption(String arguments, String message) {
        assertEquals(2, runWithoutOutput(new IsoFlopsCommand(), arguments));
        assertEquals(message, err.toString());
        assertTrue(Files.notExists(Path.of("x.json")));
    }

    /** The course's runs are not in this repository; the environment variable says where they are. */
    @Test
    @EnabledIfEnvironmentVariable(named = "CS336_ISOFLOPS_PUBLISHED", matches = ".+")
    void storedResultsOfThePublishedRunsAreUpToDate() throws IOException {
        String file = System.getenv("CS336_ISOFLOPS_PUBLISHED");
        assertEquals(0, run(new IsoFlopsCommand(), "--store published", "--runs", file), err.toString());
        for (String problem : new String[] {"isoflops_laws", "isoflops_optima"}) {
            Table stored = Measurements.read(Project.path("data/measurements/any/" + problem + ".csv"));
            stored = stored.where(stored.stringColumn("runs").isEqualTo("published"));
            Table found = Measurements.read(folder.resolve("any/" + problem + ".csv"));
            assertEquals(stored.rowCount(), found.rowCount());
            for (int i = 0; i < stored.rowCount(); i++) {
                assertEquals(stored.row(i).getString("metric"), found.row(i).getString("metric"));
                double was = stored.row(i).getDouble("mean");
                assertEquals(was, found.row(i).getDouble("mean"), 1e-6 * Math.abs(was));
            }
        }
    }
}
