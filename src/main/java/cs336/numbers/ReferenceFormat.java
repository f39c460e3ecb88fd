package cs336.numbers;

import cs336.units.Separators;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The part of a reference after the colon: a format of the number and, if the expression is a single extreme, a text in
 * parentheses that names its place: <code>%.2f× ({size}, {context} tokens)</code>. Whole numbers of the place have
 * thousands separators.
 *
 * @param number format of the number
 * @param place text in parentheses; empty if the number is written alone
 */
record ReferenceFormat(NumberFormat number, String place) {
    private static final Pattern WITH_PLACE = Pattern.compile("(.*?)\\s+(\\([^()]*\\{[^()]*\\))\\s*");
    private static final Pattern NAME = Pattern.compile("\\{([^{}]*)\\}");

    /**
     * Parses a format.
     *
     * @throws IllegalArgumentException if the format of the number is malformed
     */
    static ReferenceFormat parse(String text) {
        Matcher match = WITH_PLACE.matcher(text);
        return match.matches()
                ? new ReferenceFormat(NumberFormat.parse(match.group(1)), match.group(2))
                : new ReferenceFormat(NumberFormat.parse(text), "");
    }

    /**
     * Returns the number and its place.
     *
     * @throws IllegalArgumentException if the place contains a name that the extreme does not have, or the number has
     *     no unit but must have one
     */
    String write(Extreme extreme) {
        String written = number.write(extreme.value());
        return place.isEmpty() ? written : written + " " + filled(extreme.place());
    }

    private String filled(Map<String, String> values) {
        if (values.isEmpty()) {
            throw new IllegalArgumentException(
                    "\"" + place + "\" is the place of an extreme; the expression must be one min or max");
        }
        NAME.matcher(place).results().map(name -> name.group(1)).forEach(name -> {
            if (!values.containsKey(name)) {
                throw new IllegalArgumentException(
                        "the extreme has no name {" + name + "}; it has " + String.join(", ", values.keySet()));
            }
        });
        return Placeholders.fill(place, values, Separators::of);
    }
}
