package cs336;

import cs336.bench.ChildJvm;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Executable;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The main class of a process that calls every public constructor and method of the packages that users call with one
 * bad argument at a time: null, a closed tensor, a tensor of another dtype, or one without dimensions. It also calls
 * every method of closed objects. A call must accept this or fail with one line of this project, or with the JVM's line
 * that names the parameter, and not with a message of libtorch or of code that it calls.
 */
final class BadArgumentCalls {
    /** Separates the parts of an answer. */
    static final String SEPARATOR = "\t";

    /**
     * The packages that notebooks and programs call; those of commands, figures, writeup and notebooks are called by
     * them.
     */
    private static final List<String> PACKAGES = List.of(
            "torch",
            "units",
            "charts",
            "basics",
            "checkpointing",
            "checkpoints",
            "safetensors",
            "bench",
            "numbers",
            "precision",
            "scaling",
            "scaling.laws",
            "planner",
            "kernels.runtime",
            "kernels.norms",
            "kernels.attention",
            "kernels.optimizer",
            "compile",
            "profile",
            "profile.memory",
            "distributed.collectives",
            "distributed.launch",
            "distributed.training",
            "notebook.widgets");

    /**
     * Classes that are public only for other packages of this project: they end or start processes, or change this one.
     */
    private static final Set<String> INTERNAL = Set.of(
            "AllocatorHistory",
            "ArgumentCheck", // their callers name the argument
            "TensorChecks",
            "ChildJvm",
            "Child",
            "Ending",
            "Kineto",
            "NativeCache",
            "NativeCrossing",
            "NativeEnvironment",
            "ProcessEnd");

    private final List<Class<?>> classes = publicClasses();
    private final ExampleValues examples;

    private BadArgumentCalls(Path folder) throws IOException, URISyntaxException, ClassNotFoundException {
        examples = new ExampleValues(classes, folder);
    }

    /** Answers with the outcome of each kind of bad argument: the number of calls and the unclear outcomes. */
    public static void main(String[] arguments) throws Exception {
        var parent = new ChildJvm.Child();
        Torch.load();
        var calls = new BadArgumentCalls(Path.of(parent.next()));
        parent.answer(calls.withNull());
        parent.answer(calls.withTensors(() -> {
            Tensor closed = torch.ones(2, 2);
            closed.close();
            return closed;
        }));
        parent.answer(calls.withTensors(() -> torch.ones(1, 2, 4, 8).to(DType.INT64.scalarType())));
        parent.answer(calls.withTensors(() -> torch.ones(new long[0])));
        parent.answer(calls.ofClosedObjects());
        parent.end(0);
    }

    private static List<Class<?>> publicClasses() throws IOException, URISyntaxException, ClassNotFoundException {
        Path root = Path.of(
                Torch.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        var found = new ArrayList<Class<?>>();
        for (String name : PACKAGES) {
            Path of = root.resolve("cs336").resolve(name.replace(".", File.separator));
            try (Stream<Path> files = Files.list(of)) {
                for (String file : files.map(path -> path.getFileName().toString())
                        .sorted()
                        .toList()) {
                    if (!file.endsWith(".class") || file.startsWith("package-info")) {
                        continue;
                    }
                    String simple = file.substring(0, file.length() - ".class".length());
                    Class<?> type = ifUsable("cs336." + name + "." + simple);
                    boolean isOption =
                            simple.matches(".*(Command|Options|Workload)(\\$.*)?"); // set by picocli and Sweep
                    if (type != null && isPublic(type) && !INTERNAL.contains(type.getSimpleName()) && !isOption) {
                        found.add(type);
                    }
                }
            }
        }
        return found;
    }

    /** Returns a class, or null if it needs libraries of the GPU build. */
    private static Class<?> ifUsable(String name) throws ClassNotFoundException {
        try {
            return Class.forName(name);
        } catch (LinkageError e) {
            return null;
        }
    }

    private static boolean isPublic(Class<?> type) {
        return type == null || Modifier.isPublic(type.getModifiers()) && isPublic(type.getEnclosingClass());
    }

    private String withNull() {
        var unclear = new TreeSet<String>();
        int count = 0;
        for (Call call : calls(parameter -> !parameter.getType().isPrimitive())) {
            try (var scope = MemoryScope.open()) {
                if (call.prepare(new long[] {2, 2})) {
                    count++;
                    call.requireClear(null, unclear);
                }
            }
        }
        return answer(count, unclear);
    }

    /** Passes a bad tensor where a call with a good one succeeds. */
    private String withTensors(Supplier<Tensor> bad) {
        var unclear = new TreeSet<String>();
        int count = 0;
        for (Call call : calls(parameter -> parameter.getType() == Tensor.class)) {
            for (long[] shape : new long[][] {{2, 2}, {2}, {1, 2, 4, 8}}) {
                try (var scope = MemoryScope.open()) {
                    if (call.prepare(shape) && call.succeeds()) {
                        count++;
                        call.requireClear(bad.get(), unclear);
                        break;
                    }
                }
            }
        }
        return answer(count, unclear);
    }

    /** Calls the methods of closed objects, also {@code close}, which has no further effect. */
    private String ofClosedObjects() throws Exception {
        var unclear = new TreeSet<String>();
        int count = 0;
        for (Class<?> type : classes) {
            for (Executable method : executables(type)) {
                if (!AutoCloseable.class.isAssignableFrom(type) || !ExampleValues.needsTarget(method)) {
                    continue;
                }
                examples.setShape(2, 2);
                try (var scope = MemoryScope.open()) {
                    Object[] arguments = examples.arguments(method, -1);
                    Object target = examples.closedTarget(type);
                    if (arguments != null && target != null) {
                        count++;
                        requireClearOrAccepted(method, target, arguments, unclear);
                    }
                }
            }
        }
        return answer(count, unclear);
    }

    private static void requireClearOrAccepted(
            Executable method, Object target, Object[] arguments, Set<String> unclear) {
        try {
            ExampleValues.call(method, target, arguments);
        } catch (ClassCastException e) {
            // The example of a type variable does not suit.
        } catch (Throwable t) {
            boolean isClear = t instanceof IllegalStateException || t instanceof IllegalArgumentException;
            if (!isClear || String.valueOf(t.getMessage()).lines().count() > 1) {
                unclear.add(method + " after close(): " + t);
            }
        }
    }

    private static String answer(int count, Set<String> unclear) {
        return count + SEPARATOR + String.join(SEPARATOR, unclear).replaceAll("\\R", " ");
    }

    private List<Call> calls(Predicate<Parameter> takesBadValue) {
        var calls = new ArrayList<Call>();
        for (Class<?> type : classes) {
            for (Executable executable : executables(type)) {
                for (int i = 0; i < executable.getParameterCount(); i++) {
                    if (takesBadValue.test(executable.getParameters()[i])) {
                        calls.add(new Call(executable, i));
                    }
                }
            }
        }
        return calls;
    }

    /** A call with example values, and with a bad value of one parameter. */
    private final class Call {
        private final Executable executable;
        private final int bad;
        private Object target;
        private Object[] arguments;

        Call(Executable executable, int bad) {
            this.executable = executable;
            this.bad = bad;
        }

        /** Creates the example values; returns whether all but the bad one could be created. */
        boolean prepare(long[] shape) {
            examples.setShape(shape);
            arguments = examples.arguments(executable, bad);
            target = examples.target(executable);
            return arguments != null && (target != null || !ExampleValues.needsTarget(executable));
        }

        boolean succeeds() {
            arguments[bad] = examples.tensor();
            try {
                ExampleValues.call(executable, target, arguments);
                return true;
            } catch (Throwable t) {
                return false; // a call for a GPU, or with other shapes
            }
        }

        void requireClear(Object value, Set<String> unclear) {
            arguments[bad] = value;
            try {
                ExampleValues.call(executable, target, arguments);
            } catch (ClassCastException e) {
                // The example of a type variable does not suit.
            } catch (Throwable t) {
                if (!isClear(t)) {
                    StackTraceElement[] trace = t.getStackTrace();
                    unclear.add(this + ": " + t + (trace.length == 0 ? "" : " at " + trace[0]));
                }
            }
        }

        private boolean isClear(Throwable t) {
            String message = String.valueOf(t.getMessage());
            if (message.lines().count() > 1) {
                return false;
            }
            if (t instanceof NullPointerException && !message.endsWith(" must not be null")) {
                // The JVM too names a parameter that is null in the called method.
                return Pattern.compile("\\b" + executable.getParameters()[bad].getName() + "\\b")
                        .matcher(message)
                        .find();
            }
            return t instanceof NullPointerException
                    || t instanceof IllegalArgumentException
                    || t instanceof IllegalStateException
                    || t instanceof IOException
                    || t instanceof UncheckedIOException;
        }

        @Override
        public String toString() {
            String types = Arrays.stream(executable.getParameterTypes())
                    .map(Class::getSimpleName)
                    .collect(Collectors.joining(", ", "(", ")"));
            String type = executable.getDeclaringClass().getName().substring("cs336.".length());
            String name = executable instanceof Method ? "." + executable.getName() : "";
            return type + name + types + " " + executable.getParameters()[bad].getName();
        }
    }

    private static List<Executable> executables(Class<?> type) {
        var all = new ArrayList<Executable>();
        if (!Modifier.isAbstract(type.getModifiers())) {
            all.addAll(List.of(type.getConstructors()));
        }
        for (Method method : type.getDeclaredMethods()) {
            boolean ofJdk = method.getName().equals("equals")
                    || type.isEnum() && method.getName().equals("valueOf")
                    || method.getName().equals("main");
            boolean waitsForRanks = type == Launcher.class && method.getName().equals("run")
                    || type == ProcessGroup.class && method.getName().equals("join");
            if (Modifier.isPublic(method.getModifiers()) && !method.isSynthetic() && !ofJdk && !waitsForRanks) {
                all.add(method);
            }
        }
        return all;
    }
}
