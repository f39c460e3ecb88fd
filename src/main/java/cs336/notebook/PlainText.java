package cs336.notebook;

import java.lang.reflect.Array;
import java.util.Collection;
import java.util.Iterator;
import java.util.Map;
import java.util.stream.IntStream;

/** The text form of values: arrays as their elements, long collections truncated. */
final class PlainText {
    private static final int MOST_ELEMENTS = 100;
    private static final int MOST_CHARS = 4000;
    private static final int MOST_LEVELS = 8;

    private PlainText() {}

    static String of(Object value) {
        var text = new StringBuilder();
        append(value, 0, text);
        return text.toString();
    }

    private static void append(Object value, int level, StringBuilder text) {
        if (level > MOST_LEVELS) {
            text.append('…');
        } else if (value instanceof Collection<?> elements) {
            append(elements.iterator(), elements.size(), "[", "]", level, text);
        } else if (value instanceof Map<?, ?> map) {
            append(map.entrySet().iterator(), map.size(), "{", "}", level, text);
        } else if (value instanceof Map.Entry<?, ?> entry) {
            append(entry.getKey(), level + 1, text);
            text.append('=');
            append(entry.getValue(), level + 1, text);
        } else if (value != null && value.getClass().isArray()) {
            int length = Array.getLength(value);
            Iterator<Object> elements = IntStream.range(0, length)
                    .mapToObj(i -> Array.get(value, i))
                    .iterator();
            append(elements, length, "[", "]", level, text);
        } else {
            text.append(value);
        }
    }

    private static void append(
            Iterator<?> elements, int size, String open, String close, int level, StringBuilder text) {
        text.append(open);
        for (int i = 0; elements.hasNext(); i++) {
            if (i == MOST_ELEMENTS || text.length() > MOST_CHARS) {
                text.append(", … ").append(size).append(" in total");
                break;
            }
            text.append(i == 0 ? "" : ", ");
            append(elements.next(), level + 1, text);
        }
        text.append(close);
    }
}
