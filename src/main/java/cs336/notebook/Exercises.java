package cs336.notebook;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Hints and solutions of the notebooks' exercises, in {@code notebooks/solutions/}.
 *
 * <p>Exercise 2 of notebook 05 is the cell {@code exercise-2} of that notebook. The file of the same name in
 * {@code solutions/} has a code cell {@code exercise-2} that solves it, and a Markdown cell {@code hints-2} with a list
 * of hints. A cell that exercises depend on, in addition to earlier exercises, has the tag {@code exercises}.
 */
final class Exercises {
    static final String FOLDER = "notebooks/solutions";
    static final String CELL = "exercise-";
    static final String TAG = "exercises";
    private static final String HINTS = "hints-";
    private static final Pattern NUMBER = Pattern.compile("(\\d\\d)\\.(\\d+)");
    private static final Map<String, Integer> SHOWN = new ConcurrentHashMap<>();

    private Exercises() {}

    /** Returns the next hint to an exercise such as {@code "05.2"}. */
    static String hint(String exercise) throws IOException {
        List<String> hints = cell(exercise, HINTS)
                .source()
                .lines()
                .filter(line -> line.matches("(-|\\d+\\.) .*"))
                .map(line -> line.replaceFirst("^\\S+ ", ""))
                .toList();
        int next = SHOWN.merge(exercise, 1, Integer::sum);
        if (next > hints.size()) {
            SHOWN.remove(exercise);
            boolean isSolved = find(exercise, CELL).isPresent();
            return "There are no more hints."
                    + (isSolved ? " Check.solution(\"" + exercise + "\") shows a solution." : "");
        }
        return "Hint " + next + " of " + hints.size() + ": " + hints.get(next - 1);
    }

    /** Returns the code of a solution. */
    static String solution(String exercise) throws IOException {
        return cell(exercise, CELL).source();
    }

    private static Notebook.Cell cell(String exercise, String prefix) throws IOException {
        return find(exercise, prefix).orElseThrow(() -> {
            String what = prefix.equals(CELL) ? "solution of exercise " : "exercise ";
            return new IllegalArgumentException("there is no " + what + exercise + " in " + FOLDER);
        });
    }

    private static Optional<Notebook.Cell> find(String exercise, String prefix) throws IOException {
        Matcher number = NUMBER.matcher(Objects.requireNonNull(exercise, "exercise must not be null"));
        if (!number.matches()) {
            throw new IllegalArgumentException(
                    "exercise must be a notebook and a number, as in \"05.2\", not \"" + exercise + "\"");
        }
        for (Path file : Notebook.in(Project.path(FOLDER))) {
            if (file.getFileName().toString().startsWith(number.group(1) + "-")) {
                for (Notebook.Cell cell : Notebook.read(file).cells()) {
                    if (cell.id().equals(prefix + number.group(2))) {
                        return Optional.of(cell);
                    }
                }
            }
        }
        return Optional.empty();
    }
}
