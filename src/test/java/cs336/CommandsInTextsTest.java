package cs336;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The command lines in code of the writeup and README.md, which readers copy. */
class CommandsInTextsTest {
    /** A command line in inline code or in a line of a code block, without a comment at its end. */
    private static final Pattern COMMAND = Pattern.compile(
            "(?:`|^)(?:[A-Z_]+=\\S+ )?(?:(?:\\./)?cs336|sbatch [^`\n]*slurm/run\\.sbatch) ([a-z][^`#\n]*)",
            Pattern.MULTILINE);

    static List<String> commands() throws IOException {
        List<Path> texts = new ArrayList<>(List.of(Project.path("README.md")));
        try (Stream<Path> files = Files.list(Project.path("writeup"))) {
            files.filter(file -> file.toString().endsWith(".md")).sorted().forEach(texts::add);
        }
        List<String> commands = new ArrayList<>();
        for (Path text : texts) {
            COMMAND.matcher(Files.readString(text))
                    .results()
                    .map((MatchResult found) -> found.group(1).strip())
                    .filter(command -> !commands.contains(command))
                    .forEach(commands::add);
        }
        return commands;
    }

    @Test
    void textsNameManyCommands() throws IOException {
        assertTrue(commands().size() > 60, commands().size() + " commands");
    }

    @ParameterizedTest
    @MethodSource("commands")
    void commandsAndTheirOptionsExist(String command) {
        String[] arguments = command.split(" +");
        assertDoesNotThrow(() -> Main.commandLine(arguments).parseArgs(arguments));
    }
}
