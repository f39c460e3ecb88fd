package cs336.notebook;

import java.lang.reflect.Array;
import java.lang.reflect.InaccessibleObjectException;
import java.lang.reflect.RecordComponent;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.stream.BaseStream;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;

/** The text form of values: arrays and records as their elements, long collections truncated. */
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
        } else if (value instanceof Optional<?> optional && optional.isPresent()) {
            append(List.of(optional.get()).iterator(), 1, "Optional[", "]", level, text);
        } else if (value instanceof Tensor tensor) {
            text.append(TensorSummary.headOf(tensor));
        } else if (value instanceof BaseStream<?, ?>) {
            text.append(value).append(", a stream: toArray() returns its elements");
        } else if (value instanceof Record fields) {
            append(fields, level, text);
        } else {
            text.append(value);
        }
    }

    /** Returns the components of a record by name; none if they cannot be read. */
    private static Map<String, Object> components(Record fields) {
        Map<String, Object> components = new LinkedHashMap<>();
        try {
            for (RecordComponent component : fields.getClass().getRecordComponents()) {
                component.getAccessor().setAccessible(true);
                components.put(component.getName(), component.getAccessor().invoke(fields));
            }
            return components;
        } catch (ReflectiveOperationException | InaccessibleObjectException e) {
            return Map.of();
        }
    }

    /** Appends the components of a record, or its text if it has a {@code toString} of its own. */
    private static void append(Record fields, int level, StringBuilder text) {
        Map<String, Object> components = components(fields);
        String name = fields.getClass().getSimpleName();
        var generated = new StringJoiner(", ", name + "[", "]");
        components.forEach((component, value) -> generated.add(component + "=" + value));
        String own = fields.toString();
        if (!generated.toString().equals(own)) {
            text.append(own);
            return;
        }
        text.append(name).append('[');
        String between = "";
        for (Map.Entry<String, Object> component : components.entrySet()) {
            text.append(between).append(component.getKey()).append('=');
            append(component.getValue(), level + 1, text);
            between = ", ";
        }
        text.append(']');
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
