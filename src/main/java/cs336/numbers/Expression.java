package cs336.numbers;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A parser and evaluator of expressions over measurements:
 *
 * <pre>
 * expression = term { ("+" | "-") term }
 * term       = factor { ("*" | "/") factor }
 * factor     = number [ unit ] | [ "abs" ] "(" expression ")" | selection [ "." column ] | extreme
 * selection  = name [ "@" machine ] [ "[" filters "]" ]
 * extreme    = ( "min" | "max" ) "[" filters { ";" filters } "]" "(" expression ")"
 * filters    = column "=" value { "," value } { "," column "=" … }
 * </pre>
 *
 * The unit of a number is one word, as in {@code 989e12 FLOP}; a rate is written as a quotient, as in {@code 989e12
 * FLOP / 1 s}. A name is a name defined by {@link MeasurementQuery#define} or the name of a problem. The default column
 * is {@code mean}, or {@code value} in a file of single steps. Names may contain hyphens, so a minus sign needs spaces
 * around it.
 *
 * <p>An extreme is the smallest or largest value of its expression, in which <code>{column}</code> stands for each of
 * the column's values: <code>max[size=small, xl, context=128, 512](ours[size={size}, context={context}])</code> has
 * four cases, all combinations. Further filters after a semicolon add further cases. {@code abs} drops the sign.
 */
public final class Expression {
    private static final int DEEPEST = 100;
    private static final int MOST_EXTREMES = 3; // in each other; every one evaluates those in it for each of its cases

    private final String text;
    private final MeasurementQuery numbers;
    private int position;
    private int depth; // of parentheses and extremes
    private int extremes; // that contain this expression
    private Map<String, String> place = Map.of(); // of an extreme that is the whole expression

    private Expression(String text, MeasurementQuery numbers) {
        this.text = Objects.requireNonNull(text, "text must not be null").strip();
        this.numbers = numbers;
    }

    /**
     * Returns the value of an expression, with its place if the expression is one extreme and nothing more.
     *
     * @throws IllegalArgumentException if the expression is malformed or a selection is not exactly one number
     */
    static Extreme evaluate(String text, MeasurementQuery numbers) {
        var expression = new Expression(text, numbers);
        return new Extreme(expression.whole(), expression.place);
    }

    /** Returns whether a name is that of a function, which no measurements may have. */
    static boolean isFunction(String name) {
        return name.equals("min") || name.equals("max") || name.equals("abs");
    }

    /**
     * Parses a selection.
     *
     * @throws IllegalArgumentException if the text is not a selection
     */
    static Selection selection(String text, MeasurementQuery numbers) {
        var expression = new Expression(text, numbers);
        expression.skipSpace();
        Selection selection = expression.selection(expression.name());
        expression.requireEnd();
        return selection;
    }

    /** Returns true if the text is a selection and nothing more. */
    static boolean isSelection(String text) {
        return text.strip().matches("[A-Za-z_][\\w-]*(@[\\w.-]+)?(\\s*\\[[^\\[\\]]*\\])?");
    }

    private Quantity whole() {
        Quantity value = sum();
        requireEnd();
        return value;
    }

    private Quantity sum() {
        Quantity value = product();
        while (true) {
            if (consume('+')) {
                value = value.plus(product());
            } else if (consume('-')) {
                value = value.minus(product());
            } else {
                return value;
            }
        }
    }

    private Quantity product() {
        Quantity value = factor();
        while (true) {
            if (consume('*')) {
                value = value.times(factor());
            } else if (consume('/')) {
                value = value.dividedBy(factor());
            } else {
                return value;
            }
        }
    }

    private Quantity factor() {
        skipSpace();
        if (consume('(')) {
            return parenthesized();
        }
        if (position < text.length() && (Character.isDigit(text.charAt(position)) || text.charAt(position) == '.')) {
            double number = number();
            skipSpace();
            if (position == text.length() || !Character.isLetter(text.charAt(position))) {
                return Quantity.of(number);
            }
            String unit = name();
            if (numbers.defined(unit) != null || numbers.selectionNamed(unit) != null) {
                throw error("\"" + unit + "\" is a name; an operator is missing in front of it");
            }
            return Quantity.of(number, unit);
        }
        int start = position;
        String name = name();
        if (name.equals("abs")) {
            expect('(');
            return parenthesized().absolute();
        }
        if (isFunction(name)) {
            Extreme extreme = extreme(name);
            skipSpace();
            if (start == 0 && position == text.length()) {
                place = extreme.place();
            }
            return extreme.value();
        }
        Quantity defined = numbers.defined(name);
        if (defined != null) {
            return defined;
        }
        Selection selection = selection(name);
        String column = null;
        if (position < text.length() && text.charAt(position) == '.') {
            position++;
            column = name();
        }
        return numbers.quantity(selection, column);
    }

    private Quantity parenthesized() {
        enter();
        Quantity value = sum();
        expect(')');
        depth--;
        return value;
    }

    private Extreme extreme(String function) {
        if (extremes == MOST_EXTREMES) {
            throw error("more than " + MOST_EXTREMES + " nested extremes");
        }
        expect('[');
        var cases = new ArrayList<Map<String, String>>();
        for (String filters : untilBracket().split(";", -1)) {
            cases.addAll(Extreme.combinations(filters(filters)));
        }
        if (cases.stream().map(Map::keySet).distinct().count() > 1) {
            throw error("the cases of " + function + " must have the same columns");
        }
        expect('(');
        enter();
        int end = closingParenthesis();
        String expression = text.substring(position, end);
        position = end + 1;
        Extreme extreme = Extreme.of(function.equals("max"), cases, expression, this::nested);
        depth--;
        return extreme;
    }

    private Quantity nested(String text) {
        var expression = new Expression(text, numbers);
        expression.depth = depth;
        expression.extremes = extremes + 1;
        return expression.whole();
    }

    private void enter() {
        if (++depth > DEEPEST) {
            throw error("more than " + DEEPEST + " nested parentheses");
        }
    }

    /** Returns the index of the parenthesis that closes the one in front of the position. */
    private int closingParenthesis() {
        int open = 1;
        for (int i = position; i < text.length(); i++) {
            open += text.charAt(i) == '(' ? 1 : text.charAt(i) == ')' ? -1 : 0;
            if (open == 0) {
                return i;
            }
        }
        throw error("')' is missing");
    }

    private Selection selection(String name) {
        String machine = null;
        if (position < text.length() && text.charAt(position) == '@') {
            int start = ++position;
            while (position < text.length() && (isNamePart(text.charAt(position)) || text.charAt(position) == '.')) {
                position++;
            }
            machine = text.substring(start, position);
        }
        Map<String, List<String>> filters = consume('[') ? filters(untilBracket()) : Map.of();
        Selection base = numbers.selectionNamed(name);
        if (base == null) {
            return new Selection(name, machine, filters);
        }
        filters.forEach(
                (column, values) -> requireNarrower(name, column, base.filters().get(column), values));
        return new Selection(base.problem(), machine == null ? base.machine() : machine, base.filters())
                .refined(filters);
    }

    /** Returns the text up to the next closing bracket and moves behind it. */
    private String untilBracket() {
        int close = text.indexOf(']', position);
        if (close < 0) {
            throw error("']' is missing");
        }
        String content = text.substring(position, close);
        position = close + 1;
        return content;
    }

    /** Returns the values by column of {@code column=value, value, column=value}. */
    private Map<String, List<String>> filters(String conditions) {
        var filters = new LinkedHashMap<String, List<String>>();
        String last = null;
        for (String condition : conditions.split(",", -1)) {
            int equals = condition.indexOf('=');
            String value = condition.substring(equals + 1).strip();
            if (equals >= 0) {
                last = condition.substring(0, equals).strip();
                if (filters.put(last, new ArrayList<>()) != null) {
                    throw error("column " + last + " has two filters");
                }
            }
            if (last == null || last.isEmpty() || value.isEmpty()) {
                throw error("\"" + condition.strip() + "\" is not of the form column=value");
            }
            filters.get(last).add(value);
        }
        return filters;
    }

    /** Checks that a filter does not replace one of a name; it may select some of several values. */
    private void requireNarrower(String name, String column, List<String> defined, List<String> values) {
        boolean isNarrower = defined == null
                || defined.size() > values.size()
                        && values.stream()
                                .allMatch(
                                        value -> defined.stream().anyMatch(each -> MeasurementQuery.same(each, value)));
        if (!isNarrower) {
            throw error("\"" + name + "\" already has the filter " + column + "=" + String.join(", ", defined));
        }
    }

    private double number() {
        int start = position;
        while (position < text.length() && (Character.isDigit(text.charAt(position)) || text.charAt(position) == '.')) {
            position++;
        }
        if (position < text.length() && text.charAt(position) == 'e') {
            position++;
            if (position < text.length() && text.charAt(position) == '-') {
                position++;
            }
            while (position < text.length() && Character.isDigit(text.charAt(position))) {
                position++;
            }
        }
        String digits = text.substring(start, position);
        try {
            return Double.parseDouble(digits);
        } catch (NumberFormatException e) {
            throw error("\"" + digits + "\" is not a number");
        }
    }

    private String name() {
        int start = position;
        while (position < text.length() && isNamePart(text.charAt(position))) {
            position++;
        }
        if (position == start) {
            throw error("a name or number is missing");
        }
        return text.substring(start, position);
    }

    private static boolean isNamePart(char c) {
        return Character.isLetterOrDigit(c) || c == '_' || c == '-';
    }

    private boolean consume(char c) {
        skipSpace();
        if (position < text.length() && text.charAt(position) == c) {
            position++;
            return true;
        }
        return false;
    }

    private void expect(char c) {
        if (!consume(c)) {
            throw error("'" + c + "' is missing");
        }
    }

    private void requireEnd() {
        skipSpace();
        if (position < text.length()) {
            throw error("\"" + text.substring(position) + "\" is not expected");
        }
    }

    private void skipSpace() {
        while (position < text.length() && Character.isWhitespace(text.charAt(position))) {
            position++;
        }
    }

    private IllegalArgumentException error(String what) {
        return new IllegalArgumentException(what + " at character " + (position + 1));
    }
}
