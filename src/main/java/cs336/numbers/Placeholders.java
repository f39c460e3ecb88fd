package cs336.numbers;

import java.util.Collection;
import java.util.Map;
import java.util.function.BinaryOperator;

/** Names between braces, such as <code>{size}</code>, which stand for a value in rows of tables and in extremes. */
final class Placeholders {
    private Placeholders() {}

    /** Returns a text with the values in place of their names. Other names remain. */
    static String fill(String text, Map<String, String> values) {
        return fill(text, values, (name, value) -> value);
    }

    /**
     * Returns a text with the values in place of their names.
     *
     * @param written returns how a value is written; it receives the name and the value
     */
    static String fill(String text, Map<String, String> values, BinaryOperator<String> written) {
        String result = text;
        for (Map.Entry<String, String> value : values.entrySet()) {
            result = result.replace("{" + value.getKey() + "}", written.apply(value.getKey(), value.getValue()));
        }
        return result;
    }

    /** Throws an exception if a text does not contain each of the names between braces. */
    static void requireAll(String text, Collection<String> names, String what) {
        for (String name : names) {
            if (!text.contains("{" + name + "}")) {
                throw new IllegalArgumentException(what + " does not contain {" + name + "}");
            }
        }
    }
}
