package cs336.distributed.collectives;

import java.io.Serializable;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The reading half of {@link Serialization}. It trusts no length and no class name: it allocates in proportion to the
 * bytes that it got, and creates instances of serializable records, enums, arrays and the collections of
 * {@link Serialization} only.
 */
final class ValueDecoder {
    private static final ValueTag[] TAGS = ValueTag.values();

    private final ByteBuffer in;

    private ValueDecoder(byte[] bytes) {
        in = ByteBuffer.wrap(bytes);
    }

    static Object value(byte[] bytes) {
        var decoder = new ValueDecoder(bytes);
        try {
            Object value = decoder.read(0);
            if (decoder.in.hasRemaining()) {
                throw damaged(decoder.in.remaining() + " bytes follow its end");
            }
            return value;
        } catch (BufferUnderflowException e) {
            throw damaged("it ends early");
        } catch (ClassCastException | NullPointerException e) {
            throw damaged("its sorted elements cannot be compared");
        }
    }

    private static IllegalArgumentException damaged(String reason) {
        return new IllegalArgumentException("a value from another process is damaged: " + reason);
    }

    private Object read(int depth) {
        if (depth > ValueTag.MOST_NESTED) {
            throw damaged("it has more than " + ValueTag.MOST_NESTED + " nested objects");
        }
        int code = in.get();
        if (code < 0 || code >= TAGS.length) {
            throw damaged("tag " + code + " is unknown");
        }
        return switch (TAGS[code]) {
            case NULL -> null;
            case FALSE -> false;
            case TRUE -> true;
            case BYTE -> in.get();
            case SHORT -> in.getShort();
            case CHARACTER -> in.getChar();
            case INT -> in.getInt();
            case LONG -> in.getLong();
            case FLOAT -> in.getFloat();
            case DOUBLE -> in.getDouble();
            case STRING -> text();
            case DURATION -> duration();
            case LIST -> elements(new ArrayList<>(), depth);
            case SET -> elements(new LinkedHashSet<>(), depth);
            case SORTED_SET -> elements(new TreeSet<>(), depth);
            case MAP -> entries(new LinkedHashMap<>(), depth);
            case SORTED_MAP -> entries(new TreeMap<>(), depth);
            case BYTES -> bytes();
            case ARRAY -> array(depth);
            case ENUM -> constant();
            case RECORD -> record(depth);
        };
    }

    /** Reads a number of elements, each of which takes at least one byte. */
    private int length() {
        int length = in.getInt();
        if (length < 0 || length > in.remaining()) {
            throw damaged("length " + length + " exceeds its " + in.remaining() + " remaining bytes");
        }
        return length;
    }

    private byte[] bytes() {
        byte[] bytes = new byte[length()];
        in.get(bytes);
        return bytes;
    }

    private String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    private Duration duration() {
        try {
            return Duration.ofSeconds(in.getLong(), in.getInt());
        } catch (ArithmeticException | DateTimeException e) {
            throw damaged("a duration is out of range");
        }
    }

    private Collection<Object> elements(Collection<Object> into, int depth) {
        int length = length();
        for (int i = 0; i < length; i++) {
            into.add(read(depth + 1));
        }
        return into;
    }

    private Map<Object, Object> entries(Map<Object, Object> into, int depth) {
        int length = length();
        for (int i = 0; i < length; i++) {
            Object key = read(depth + 1);
            into.put(key, read(depth + 1));
        }
        return into;
    }

    private Object array(int depth) {
        Class<?> type = type();
        if (!type.isArray()) {
            throw damaged(type.getName() + " is not an array");
        }
        int length = length();
        Object array = Array.newInstance(type.getComponentType(), length);
        for (int i = 0; i < length; i++) {
            try {
                Array.set(array, i, read(depth + 1));
            } catch (IllegalArgumentException e) {
                throw damaged("an element of " + type.getName() + " has another type");
            }
        }
        return array;
    }

    private Object constant() {
        Class<?> type = type();
        String name = text();
        if (type.isEnum()) {
            for (Object constant : type.getEnumConstants()) {
                if (((Enum<?>) constant).name().equals(name)) {
                    return constant;
                }
            }
        }
        throw damaged(type.getName() + " has no constant " + name);
    }

    private Object record(int depth) {
        Class<?> type = type();
        if (!type.isRecord() || !Serializable.class.isAssignableFrom(type)) {
            throw damaged(type.getName() + " is not a serializable record");
        }
        RecordComponent[] components = type.getRecordComponents();
        Object[] values = new Object[length()];
        if (values.length != components.length) {
            throw damaged(type.getName() + " has " + components.length + " components, not " + values.length);
        }
        for (int i = 0; i < values.length; i++) {
            values[i] = read(depth + 1);
        }
        try {
            Constructor<?> canonical = type.getDeclaredConstructor(
                    Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new));
            canonical.setAccessible(true);
            return canonical.newInstance(values);
        } catch (InvocationTargetException e) {
            throw damaged(type.getName() + " rejects its components: " + e.getCause());
        } catch (IllegalArgumentException | ReflectiveOperationException e) {
            throw damaged("a component of " + type.getName() + " has another type");
        }
    }

    /** Reads the name of a class and returns the class without initializing it. */
    private Class<?> type() {
        String name = text();
        for (ClassLoader loader : Arrays.asList(
                Serialization.class.getClassLoader(), Thread.currentThread().getContextClassLoader())) {
            try {
                return Class.forName(name, false, loader);
            } catch (ClassNotFoundException e) {
                // Try the next class loader.
            } catch (LinkageError e) {
                throw damaged("class " + name + " cannot be loaded");
            }
        }
        throw new IllegalStateException("class " + name + " is not on the class path of this process");
    }
}
