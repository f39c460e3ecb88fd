package cs336.charts;

import cs336.bench.ChildJvm;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Runs a test class in a JVM with another locale and time zone and without system fonts. */
public final class OtherJvm {
    private OtherJvm() {}

    /** Returns the standard output and error of a main class. */
    public static String run(Class<?> main, Map<String, String> properties, String... arguments) throws IOException {
        var command = new ArrayList<>(List.of(
                ChildJvm.javaExecutable(),
                "-Duser.language=ar",
                "-Duser.country=SA",
                "-Duser.timezone=Asia/Tokyo",
                "-Djava.awt.headless=true",
                "-cp",
                System.getProperty("java.class.path")));
        properties.forEach((key, value) -> command.add(1, "-D" + key + "=" + value));
        command.add(main.getName());
        command.addAll(List.of(arguments));
        // The empty configuration names no font folder. A new home folder hides fonts that Java cached in earlier runs.
        Path home = Files.createTempDirectory("no-fonts");
        Path configuration = Files.writeString(home.resolve("fonts.conf"), "<fontconfig></fontconfig>");
        command.add(1, "-Duser.home=" + home);
        var builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("FONTCONFIG_FILE", configuration.toString());
        // The JVM prints a line on standard error for each of these that is set.
        builder.environment().keySet().removeAll(List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"));
        try {
            return new String(builder.start().getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } finally {
            delete(home);
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
