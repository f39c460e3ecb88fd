package cs336.scaling.laws;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import cs336.bench.WholeFile;
import cs336.torch.StrictJson;
import java.io.IOException;
import java.io.Reader;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Training runs of several compute budgets, with models of several sizes for each. {@link FitMethod} selects how
 * scaling laws are fitted to them. A file of runs is a JSON array of objects {@code {"parameters": 75000000,
 * "compute_budget": 1e18, "final_loss": 3.549787}}, with the budget in FLOP and the loss in nats per token.
 *
 * @param runs training runs. {@link FitMethod#LOSS_SURFACE} needs six, of any budgets, with three numbers of parameters
 *     and three of tokens; the other methods need three budgets with three model sizes each
 */
public record IsoFlops(List<TrainingRun> runs) {
    /** The path of the course's file of runs, which is not part of this repository. */
    public static final String COURSE_FILE = "data/isoflops_curves.json";

    private static final List<String> FIELDS = List.of("parameters", "compute_budget", "final_loss");
    private static final int BUDGETS = 3;

    /** @throws IllegalArgumentException if there are no runs */
    public IsoFlops {
        Objects.requireNonNull(runs, "runs must not be null");
        runs.forEach(run -> Objects.requireNonNull(run, "runs must not contain null"));
        runs = List.copyOf(runs);
        if (runs.isEmpty()) {
            throw new IllegalArgumentException("there are no runs");
        }
    }

    /**
     * Returns the runs of each budget, from the smallest budget to the largest.
     *
     * @throws IllegalArgumentException for fewer than three budgets, or fewer than three sizes of a budget
     */
    public List<IsoFlopProfile> profiles() {
        var byBudget =
                runs.stream().collect(Collectors.groupingBy(TrainingRun::compute, TreeMap::new, Collectors.toList()));
        if (byBudget.size() < BUDGETS) {
            throw new IllegalArgumentException("compute_budget must take at least %d values, not %d (%s)"
                    .formatted(
                            BUDGETS,
                            byBudget.size(),
                            byBudget.keySet().stream().map(IsoFlops::flop).collect(Collectors.joining(", "))));
        }
        List<IsoFlopProfile> profiles = new ArrayList<>();
        byBudget.forEach((compute, of) -> profiles.add(new IsoFlopProfile(compute, of)));
        return List.copyOf(profiles);
    }

    /**
     * Reads runs from a file.
     *
     * @throws IllegalArgumentException if the file has no valid runs; the message names the file, the run and the field
     * @throws IOException if it cannot be read
     */
    public static IsoFlops read(Path file) throws IOException {
        try (Reader reader = new StringReader(WholeFile.read(file))) {
            return of(StrictJson.parse(reader, "the file"));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(file + ": " + e.getMessage(), e);
        }
    }

    private static IsoFlops of(JsonElement root) {
        if (!(root instanceof JsonArray array)) {
            throw new IllegalArgumentException("the root must be an array of runs, not " + shortened(root));
        }
        List<TrainingRun> runs = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            try {
                runs.add(run(array.get(i)));
            } catch (IllegalArgumentException | ArithmeticException e) {
                throw new IllegalArgumentException("run " + (i + 1) + ": " + e.getMessage(), e);
            }
        }
        return new IsoFlops(runs);
    }

    private static TrainingRun run(JsonElement element) {
        if (!(element instanceof JsonObject run)) {
            throw new IllegalArgumentException("a run must be an object, not " + shortened(element));
        }
        for (String name : run.keySet()) {
            if (!FIELDS.contains(name)) {
                throw new IllegalArgumentException("fields must be " + String.join(", ", FIELDS) + ", not " + name);
            }
        }
        BigDecimal parameters = number(run, "parameters");
        if (parameters.stripTrailingZeros().scale() > 0
                || parameters.compareTo(BigDecimal.valueOf(Long.MIN_VALUE)) < 0
                || parameters.compareTo(BigDecimal.valueOf(Long.MAX_VALUE)) > 0) {
            throw new IllegalArgumentException("parameters must be a whole number below 2^63, not " + parameters);
        }
        return new TrainingRun(
                parameters.longValue(),
                number(run, "compute_budget").doubleValue(),
                number(run, "final_loss").doubleValue());
    }

    private static BigDecimal number(JsonObject run, String name) {
        JsonElement value = run.get(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing; the fields are " + String.join(", ", run.keySet()));
        }
        if (!value.isJsonPrimitive() || !value.getAsJsonPrimitive().isNumber()) {
            throw new IllegalArgumentException(name + " must be a number without a unit, not " + shortened(value));
        }
        return value.getAsBigDecimal();
    }

    private static String shortened(JsonElement element) {
        String text = element.toString();
        return text.length() <= 40 ? text : text.substring(0, 40) + "…";
    }

    /** Returns the runs in the format of {@link #read}: one per line, losses with six decimals. */
    public String json() {
        return runs.stream()
                .map(run -> String.format(
                        Locale.ROOT,
                        "  {\"parameters\": %d, \"compute_budget\": %s, \"final_loss\": %.6f}",
                        run.parameters(),
                        flop(run.compute()),
                        run.loss()))
                .collect(Collectors.joining(",\n", "[\n", "\n]\n"));
    }

    /** Returns a budget in short notation: 1e18, 2.5e23. */
    static String flop(double compute) {
        var digits = new BigDecimal(compute).round(new MathContext(15)).stripTrailingZeros();
        return digits.toString().replace("E+", "e");
    }
}
