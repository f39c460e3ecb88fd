package cs336.charts;

import cs336.bench.TestJvm;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Runs a test class in a JVM with another locale and time zone and without system fonts, but with this JVM's flags. */
public final class OtherJvm {
    private OtherJvm() {}

    /** Returns the standard output and error of a main class. */
    public static String run(Class<?> main, Map<String, String> properties, String... arguments) throws IOException {
        // The empty configuration names no font folder. A new home folder hides fonts that Java cached in earlier runs.
        Path home = Files.createTempDirectory("no-fonts");
        Path configuration = Files.writeString(home.resolve("fonts.conf"), "<fontconfig></fontconfig>");
        var flags = new ArrayList<>(List.of(
                "-Duser.home=" + home,
                "-Duser.language=ar",
                "-Duser.country=SA",
                "-Duser.timezone=Asia/Tokyo",
                "-Djava.awt.headless=true"));
        properties.forEach((key, value) -> flags.add("-D" + key + "=" + value));
        ProcessBuilder builder = TestJvm.of(main, arguments).redirectErrorStream(true);
        List<String> command = builder.command();
        command.addAll(command.size() - arguments.length - 1, flags); // last, so that they replace those of this JVM
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
