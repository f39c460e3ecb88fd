package cs336.numbers;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The smallest or largest value of an expression over several cases, and the case that has it.
 *
 * @param value value of the expression in this case
 * @param place values of the case by name; empty if the value is not an extreme
 */
record Extreme(Quantity value, Map<String, String> place) {

    /**
     * Returns the smallest or largest value; of equal ones the first.
     *
     * @param largest true for the largest value
     * @param cases values by name of each case
     * @param expression expression that contains each of the names between braces
     * @param evaluate returns the value of an expression
     * @throws IllegalArgumentException if the expression lacks a name, there are fewer than two different cases, a case
     *     has no value, or two values have different dimensions; the message names the case
     */
    static Extreme of(
            boolean largest, List<Map<String, String>> cases, String expression, Function<String, Quantity> evaluate) {
        if (cases.size() < 2) {
            throw new IllegalArgumentException("an extreme must be over two or more cases");
        }
        if (new HashSet<>(cases).size() < cases.size()) {
            throw new IllegalArgumentException("an extreme must not have a case twice");
        }
        Placeholders.requireAll(expression, cases.get(0).keySet(), "\"" + expression.strip() + "\"");
        Extreme best = null;
        for (Map<String, String> values : cases) {
            try {
                Quantity value = evaluate.apply(Placeholders.fill(expression, values));
                double above = best == null ? 0 : value.minus(best.value).value();
                if (best == null || (largest ? above > 0 : above < 0)) {
                    best = new Extreme(value, values);
                }
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException("in the case " + written(values) + ": " + e.getMessage(), e);
            }
        }
        return best;
    }

    private static String written(Map<String, String> values) {
        return values.entrySet().stream()
                .map(value -> value.getKey() + "=" + value.getValue())
                .collect(Collectors.joining(", "));
    }

    /** Returns all combinations of the values of several names. */
    static List<Map<String, String>> combinations(Map<String, List<String>> valuesByName) {
        List<Map<String, String>> cases = List.of(Map.of());
        for (Map.Entry<String, List<String>> name : valuesByName.entrySet()) {
            var longer = new ArrayList<Map<String, String>>();
            for (Map<String, String> before : cases) {
                for (String value : name.getValue()) {
                    var values = new LinkedHashMap<>(before);
                    values.put(name.getKey(), value);
                    longer.add(values);
                }
            }
            cases = longer;
        }
        return cases;
    }
}
