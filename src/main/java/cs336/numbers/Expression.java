package cs336.numbers;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The language of references, read and evaluated from left to right:
 *
 * <pre>
 * expression = term { ("+" | "-") term }
 * term       = factor { ("*" | "/") factor }
 * factor     = number [ unit ] | "(" expression ")" | selection [ "." column ]
 * selection  = name [ "@" machine ] [ "[" column "=" value { "," value } { "," column "=" … } "]" ]
 * </pre>
 *
 * A number's unit stands behind a space and is a single word, as in {@code 989e12 FLOP}; a rate is a quotient. A name
 * is a problem, or what was defined under it; the column is {@code mean} where none is named ({@code value} in a file
 * of single steps). In names a hyphen counts as a letter, so a minus stands between spaces.
 */
public final class Expression {
    private final String text;
    private final MeasurementQuery numbers;
    private int at;

    private Expression(String text, MeasurementQuery numbers) {
        this.text = text.strip();
        this.numbers = numbers;
    }

    static Quantity evaluate(String text, MeasurementQuery numbers) {
        var expression = new Expression(text, numbers);
        Quantity value = expression.sum();
        expression.end();
        return value;
    }

    static Selection selection(String text, MeasurementQuery numbers) {
        var expression = new Expression(text, numbers);
        expression.space();
        Selection selection = expression.selection(expression.name());
        expression.end();
        return selection;
    }

    /** Whether the text is a selection and nothing more, so that it can be refined. */
    static boolean isSelection(String text) {
        return text.strip().matches("[A-Za-z_][\\w-]*(@[\\w.-]+)?(\\s*\\[[^\\[\\]]*\\])?");
    }

    private Quantity sum() {
        Quantity value = product();
        while (true) {
            if (taken('+')) {
                value = value.plus(product());
            } else if (taken('-')) {
                value = value.minus(product());
            } else {
                return value;
            }
        }
    }

    private Quantity product() {
        Quantity value = factor();
        while (true) {
            if (taken('*')) {
                value = value.times(factor());
            } else if (taken('/')) {
                value = value.dividedBy(factor());
            } else {
                return value;
            }
        }
    }

    private Quantity factor() {
        space();
        if (taken('(')) {
            Quantity value = sum();
            expect(')');
            return value;
        }
        if (at < text.length() && (Character.isDigit(text.charAt(at)) || text.charAt(at) == '.')) {
            double number = number();
            space();
            return at < text.length() && Character.isLetter(text.charAt(at))
                    ? Quantity.of(number, name())
                    : Quantity.of(number);
        }
        String name = name();
        Quantity defined = numbers.defined(name);
        if (defined != null) {
            return defined;
        }
        Selection selection = selection(name);
        String column = null;
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            column = name();
        }
        return numbers.quantity(selection, column);
    }

    private Selection selection(String name) {
        String machine = null;
        if (at < text.length() && text.charAt(at) == '@') {
            int start = ++at;
            while (at < text.length() && (isNamePart(text.charAt(at)) || text.charAt(at) == '.')) {
                at++;
            }
            machine = text.substring(start, at);
        }
        Map<String, List<String>> filters = new LinkedHashMap<>();
        if (taken('[')) {
            int close = text.indexOf(']', at);
            if (close < 0) {
                throw error("']' is missing");
            }
            String last = null;
            for (String part : text.substring(at, close).split(",", -1)) {
                int equals = part.indexOf('=');
                String value = part.substring(equals + 1).strip();
                if (equals >= 0) {
                    last = part.substring(0, equals).strip();
                    if (filters.put(last, new ArrayList<>()) != null) {
                        throw error("column " + last + " is filtered twice");
                    }
                }
                if (last == null || last.isEmpty() || value.isEmpty()) {
                    throw error("\"" + part.strip() + "\" is not of the form column=value");
                }
                filters.get(last).add(value);
            }
            at = close + 1;
        }
        Selection base = numbers.selectionNamed(name);
        return base == null
                ? new Selection(name, machine, filters)
                : new Selection(base.problem(), machine == null ? base.machine() : machine, base.filters())
                        .refined(filters);
    }

    private double number() {
        int start = at;
        while (at < text.length() && (Character.isDigit(text.charAt(at)) || text.charAt(at) == '.')) {
            at++;
        }
        if (at < text.length() && text.charAt(at) == 'e') {
            at++;
            if (at < text.length() && text.charAt(at) == '-') {
                at++;
            }
            while (at < text.length() && Character.isDigit(text.charAt(at))) {
                at++;
            }
        }
        String digits = text.substring(start, at);
        try {
            return Double.parseDouble(digits);
        } catch (NumberFormatException e) {
            throw error("\"" + digits + "\" is not a number");
        }
    }

    private String name() {
        int start = at;
        while (at < text.length() && isNamePart(text.charAt(at))) {
            at++;
        }
        if (at == start) {
            throw error("a name or number is missing");
        }
        return text.substring(start, at);
    }

    private static boolean isNamePart(char c) {
        return Character.isLetterOrDigit(c) || c == '_' || c == '-';
    }

    private boolean taken(char c) {
        space();
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char c) {
        if (!taken(c)) {
            throw error("'" + c + "' is missing");
        }
    }

    private void end() {
        space();
        if (at < text.length()) {
            throw error("\"" + text.substring(at) + "\" is not understood");
        }
    }

    private void space() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private IllegalArgumentException error(String what) {
        return new IllegalArgumentException(what + " at character " + (at + 1));
    }
}
