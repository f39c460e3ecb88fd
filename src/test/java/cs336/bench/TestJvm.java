package cs336.bench;

import java.util.ArrayList;
import java.util.List;

/** New JVMs of tests for main classes, with the class path and the flags of this JVM as {@link ChildJvm} has them. */
public final class TestJvm {
    private TestJvm() {}

    /** Returns a builder of a process that runs a main class, with CLASSPATH in its environment. */
    public static ProcessBuilder of(Class<?> main, String... arguments) {
        var command = new ArrayList<String>();
        command.add(ChildJvm.javaExecutable());
        command.addAll(ChildJvm.flags());
        command.add(main.getName());
        command.addAll(List.of(arguments));
        var builder = new ProcessBuilder(command);
        builder.environment().put("CLASSPATH", ChildJvm.classPath());
        return builder;
    }
}
