package cs336.distributed.collectives;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;

/** The writing half of {@link Serialization}. */
final class ValueEncoder {
    private final Object root;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final DataOutputStream out = new DataOutputStream(bytes);

    private ValueEncoder(Object root) {
        this.root = root;
    }

    static byte[] bytes(Object value) {
        var encoder = new ValueEncoder(value);
        try {
            encoder.write(value, 0);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return encoder.bytes.toByteArray();
    }

    private void write(Object value, int depth) throws IOException {
        if (depth > ValueTag.MOST_NESTED) {
            throw unsendable("more than " + ValueTag.MOST_NESTED + " nested objects, or a cycle");
        }
        if (value == null) {
            tag(ValueTag.NULL);
        } else if (value instanceof String text) {
            tag(ValueTag.STRING);
            text(text);
        } else if (value instanceof Boolean flag) {
            tag(flag ? ValueTag.TRUE : ValueTag.FALSE);
        } else if (value instanceof Number || value instanceof Character) {
            number(value);
        } else if (value instanceof Collection<?> collection) {
            collection(collection, depth);
        } else if (value instanceof Map<?, ?> map) {
            map(map, depth);
        } else if (value instanceof byte[] array) {
            tag(ValueTag.BYTES);
            out.writeInt(array.length);
            out.write(array);
        } else if (value.getClass().isArray()) {
            array(value, depth);
        } else if (value instanceof Duration duration) {
            tag(ValueTag.DURATION);
            out.writeLong(duration.getSeconds());
            out.writeInt(duration.getNano());
        } else if (value instanceof Enum<?> constant) {
            tag(ValueTag.ENUM);
            text(constant.getDeclaringClass().getName());
            text(constant.name());
        } else if (value instanceof Record record && value instanceof Serializable) {
            record(record, depth);
        } else {
            String type = "a " + value.getClass().getName() + ", which is not ";
            throw unsendable(
                    value instanceof Serializable
                            ? type + "a record, enum, collection, array, string, number or duration"
                            : type + "Serializable");
        }
    }

    private void tag(ValueTag tag) throws IOException {
        out.writeByte(tag.ordinal());
    }

    private void text(String text) throws IOException {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        out.writeInt(utf8.length);
        out.write(utf8);
    }

    private void number(Object value) throws IOException {
        if (value instanceof Integer n) {
            tag(ValueTag.INT);
            out.writeInt(n);
        } else if (value instanceof Long n) {
            tag(ValueTag.LONG);
            out.writeLong(n);
        } else if (value instanceof Double x) {
            tag(ValueTag.DOUBLE);
            out.writeLong(Double.doubleToRawLongBits(x));
        } else if (value instanceof Float x) {
            tag(ValueTag.FLOAT);
            out.writeInt(Float.floatToRawIntBits(x));
        } else if (value instanceof Byte n) {
            tag(ValueTag.BYTE);
            out.writeByte(n);
        } else if (value instanceof Short n) {
            tag(ValueTag.SHORT);
            out.writeShort(n);
        } else if (value instanceof Character c) {
            tag(ValueTag.CHARACTER);
            out.writeChar(c);
        } else {
            throw unsendable("a " + value.getClass().getName() + ", which is not a boxed primitive");
        }
    }

    private void collection(Collection<?> values, int depth) throws IOException {
        if (!(values instanceof List || values instanceof Set)) {
            throw unsendable("a " + values.getClass().getName() + ", which is neither a list nor a set");
        }
        if (values instanceof SortedSet<?> sorted) {
            requireNaturalOrder(sorted.comparator());
        }
        tag(values instanceof List ? ValueTag.LIST : values instanceof SortedSet ? ValueTag.SORTED_SET : ValueTag.SET);
        out.writeInt(values.size());
        for (Object value : values) {
            write(value, depth + 1);
        }
    }

    private void map(Map<?, ?> map, int depth) throws IOException {
        if (map instanceof SortedMap<?, ?> sorted) {
            requireNaturalOrder(sorted.comparator());
        }
        tag(map instanceof SortedMap ? ValueTag.SORTED_MAP : ValueTag.MAP);
        out.writeInt(map.size());
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            write(entry.getKey(), depth + 1);
            write(entry.getValue(), depth + 1);
        }
    }

    private void requireNaturalOrder(Object comparator) {
        if (comparator != null) {
            throw unsendable("a sorted collection with a comparator");
        }
    }

    private void array(Object array, int depth) throws IOException {
        tag(ValueTag.ARRAY);
        text(array.getClass().getName());
        int length = Array.getLength(array);
        out.writeInt(length);
        for (int i = 0; i < length; i++) {
            write(Array.get(array, i), depth + 1);
        }
    }

    private void record(Record record, int depth) throws IOException {
        tag(ValueTag.RECORD);
        text(record.getClass().getName());
        RecordComponent[] components = record.getClass().getRecordComponents();
        out.writeInt(components.length);
        for (RecordComponent component : components) {
            try {
                component.getAccessor().setAccessible(true);
                write(component.getAccessor().invoke(record), depth + 1);
            } catch (InvocationTargetException | IllegalAccessException e) {
                throw new IllegalArgumentException(
                        component.getName() + " of a " + record.getClass().getName() + " cannot be read", e);
            }
        }
    }

    private IllegalArgumentException unsendable(String found) {
        return new IllegalArgumentException(
                "a value of " + root.getClass().getName() + " cannot be sent to another process: it contains " + found);
    }
}
