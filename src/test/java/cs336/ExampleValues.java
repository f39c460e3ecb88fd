package cs336;

import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.torch.DType;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.Writer;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Valid values of many types: constants, and objects created by public constructors and static factory methods. */
final class ExampleValues {
    private static final int DEPTH = 3;

    private final List<Class<?>> classes;
    private final Map<Class<?>, Object> constants = new HashMap<>();
    private final Map<Class<?>, Object> created = new HashMap<>();
    private final Set<Class<?>> inProgress = new HashSet<>();
    private long[] shape = {2, 2};

    /**
     * @param classes those of which values may be created
     * @param folder where files may be written
     */
    ExampleValues(List<Class<?>> classes, Path folder) {
        this.classes = classes;
        for (Class<?> type : new Class<?>[] {int.class, Integer.class}) {
            constants.put(type, 2);
        }
        constants.put(long.class, 2L);
        constants.put(double.class, 0.5);
        constants.put(float.class, 0.5f);
        constants.put(boolean.class, false);
        constants.put(byte.class, (byte) 1);
        constants.put(char.class, 'a');
        for (Class<?> type : new Class<?>[] {String.class, CharSequence.class, Object.class}) {
            constants.put(type, "fp32");
        }
        constants.put(Class.class, String.class);
        constants.put(Path.class, folder.resolve("file"));
        constants.put(Duration.class, Duration.ofSeconds(1));
        for (Class<?> type : new Class<?>[] {List.class, Collection.class, Iterable.class}) {
            constants.put(type, List.of());
        }
        constants.put(Map.class, Map.of());
        constants.put(Set.class, Set.of());
        constants.put(SortedMap.class, new TreeMap<>());
        constants.put(PrintWriter.class, new PrintWriter(Writer.nullWriter()));
        constants.put(PrintStream.class, new PrintStream(OutputStream.nullOutputStream()));
        constants.put(DType.class, DType.FLOAT32);
        constants.put(TransformerConfig.class, TinyConfig.create());
    }

    /** Sets the shape of the tensors. */
    void setShape(long... newShape) {
        shape = newShape;
    }

    /** Returns a tensor, which is freed with the memory scope of the call. */
    Tensor tensor() {
        return torch.ones(shape);
    }

    static boolean needsTarget(Executable executable) {
        return executable instanceof Method && !Modifier.isStatic(executable.getModifiers());
    }

    /** Returns an object on which a method can be called; null if there is none or none is needed. */
    Object target(Executable executable) {
        return needsTarget(executable) ? value(executable.getDeclaringClass(), DEPTH) : null;
    }

    /** Returns a new object of a closeable class, already closed; null if there is none. */
    Object closedTarget(Class<?> type) throws Exception {
        if (created.remove(type) instanceof AutoCloseable previous) {
            previous.close(); // only one profiler can run
        }
        Object target = value(type, DEPTH);
        created.remove(type);
        if (target instanceof AutoCloseable open) {
            open.close();
        }
        return target;
    }

    /** Returns arguments for all parameters but one; null if some cannot be created. */
    Object[] arguments(Executable executable, int without) {
        return arguments(executable, without, DEPTH);
    }

    static Object call(Executable executable, Object target, Object[] arguments) throws Throwable {
        try {
            return executable instanceof Constructor<?> constructor
                    ? constructor.newInstance(arguments)
                    : ((Method) executable).invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private Object[] arguments(Executable executable, int without, int depth) {
        Class<?>[] types = executable.getParameterTypes();
        var arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            arguments[i] = i == without ? null : value(executable.getGenericParameterTypes()[i], types[i], depth);
            if (arguments[i] == null && i != without) {
                return null;
            }
        }
        return arguments;
    }

    /** Returns a value that contains a tensor if the type is a list of tensors or a map to tensors. */
    private Object value(Type generic, Class<?> type, int depth) {
        if (generic instanceof ParameterizedType container) {
            List<Type> elements = List.of(container.getActualTypeArguments());
            if (type == List.class && elements.equals(List.of(Tensor.class))) {
                return List.of(tensor().requires_grad_(true));
            }
            if (type == Map.class && elements.equals(List.of(String.class, Tensor.class))) {
                return Map.of("weight", tensor().requires_grad_(true));
            }
        }
        return value(type, depth);
    }

    private Object value(Class<?> type, int depth) {
        if (constants.containsKey(type)) {
            return constants.get(type);
        }
        if (type == Tensor.class) {
            return tensor();
        }
        if (type == TensorVector.class) {
            return new TensorVector(tensor());
        }
        if (type.isArray()) {
            Object element = value(type.getComponentType(), depth);
            Object array = Array.newInstance(type.getComponentType(), element == null ? 0 : 1);
            if (element != null) {
                Array.set(array, 0, element);
            }
            return array;
        }
        if (type.isEnum()) {
            return type.getEnumConstants()[0];
        }
        return isFunction(type) ? function(type) : created(type, depth);
    }

    private static boolean isFunction(Class<?> type) {
        return type.isInterface()
                && !type.isSealed()
                && Arrays.stream(type.getMethods())
                                .filter(method -> Modifier.isAbstract(method.getModifiers()))
                                .count()
                        == 1;
    }

    /** Returns a function that returns its first argument if it can, else an example. */
    private Object function(Class<?> type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
            if (method.isDefault()) {
                return InvocationHandler.invokeDefault(proxy, method, arguments);
            }
            if (method.getDeclaringClass() == Object.class) {
                return switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> "function";
                };
            }
            if (arguments != null && method.getReturnType().isInstance(arguments[0])) {
                return arguments[0];
            }
            return method.getReturnType() == void.class ? null : value(method.getReturnType(), 2);
        });
    }

    private Object created(Class<?> type, int depth) {
        if (created.containsKey(type)) {
            return created.get(type);
        }
        if (depth == 0 || !classes.contains(type) || !inProgress.add(type)) {
            return null;
        }
        try {
            List<Executable> factories = factories(type);
            if (Modifier.isAbstract(type.getModifiers())) {
                classes.stream()
                        .filter(type::isAssignableFrom)
                        .forEach(subclass -> factories.addAll(factories(subclass)));
            }
            for (Executable factory : factories) {
                Object[] arguments = arguments(factory, -1, depth - 1);
                Object value = arguments == null ? null : resultOf(factory, arguments);
                if (value != null) {
                    created.put(type, value);
                    return value;
                }
            }
            return null;
        } finally {
            inProgress.remove(type);
        }
    }

    private static List<Executable> factories(Class<?> type) {
        var all = new ArrayList<Executable>();
        if (!Modifier.isAbstract(type.getModifiers())) {
            all.addAll(List.of(type.getConstructors()));
        }
        for (Method method : type.getMethods()) {
            if (Modifier.isStatic(method.getModifiers()) && method.getReturnType() == type) {
                all.add(method);
            }
        }
        all.sort(Comparator.comparingInt(Executable::getParameterCount).thenComparing(Executable::toString));
        return all;
    }

    private static Object resultOf(Executable factory, Object[] arguments) {
        try {
            return call(factory, null, arguments);
        } catch (Throwable t) {
            return null; // these arguments do not suit
        }
    }
}
