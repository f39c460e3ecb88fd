package cs336;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

/**
 * Wrong command lines: every option of every command that writes to a folder, with values that nobody should give. The
 * folder cannot be written, so that valid values end before any work, too.
 */
class CommandLineFuzzTest {
    /** Commands, each with an option that names a folder as the last argument. */
    private static final List<String> COMMANDS = List.of(
            "benchmark --output",
            "profile --folder",
            "memory --folder",
            "checkpointing --output",
            "precision --output",
            "norms --output",
            "weighted-sum --output",
            "attention --output",
            "flash --output",
            "leaderboard --output",
            "kernels --output",
            "accounting --answers --output",
            "isoflops --store here --output",
            "overlap missing.json --figure",
            "writeup --output",
            "train --text missing.txt --checkpoint",
            "allreduce --device cpu --output",
            "compile --output",
            "fsdp --device cpu --output",
            "ddp --checkpoint",
            "shard --mode zero-1 --checkpoint",
            "fsdp --mode fsdp --checkpoint");

    private static final String[] VALUES = {
        "",
        " ",
        "-1",
        "0",
        "1,",
        ",",
        "1,1",
        "2147483647",
        "2147483648",
        "9223372036854775808",
        "1e999",
        "NaN",
        "x",
        "no such thing",
        "two\nlines",
        "../..",
        "ü🙂",
        "a'b\"c",
        "@/"
    };

    /** A run with -Dcs336.fuzz=19 tries all values; each command line takes milliseconds. */
    private static final int VALUES_PER_OPTION = Integer.getInteger("cs336.fuzz", 1);

    @TempDir
    private Path folder;

    private int runs;

    private void assertRefused(List<String> arguments) {
        var out = new StringWriter();
        var err = new StringWriter();
        String[] line = arguments.toArray(String[]::new);
        int exitCode = Main.commandLine(line)
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(line);
        assertTrue(exitCode == 1 || exitCode == 2, arguments + " ended with exit code " + exitCode);
        assertEquals(1, err.toString().lines().count(), arguments + ": " + err);
        assertTrue(err.toString().startsWith("cs336: "), arguments + ": " + err);
        assertEquals("", out.toString(), arguments.toString());
        runs++;
    }

    @Test
    void everyWrongValueIsReportedInOneLine() throws IOException {
        String unwritable =
                Files.writeString(folder.resolve("file"), "").resolve("x/y").toString();
        var random = new Random(336);
        PrintStream console = System.err;
        var progress = new ByteArrayOutputStream();
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
        try {
            for (String command : COMMANDS) {
                List<String> start = List.of((command + " " + unwritable).split(" "));
                CommandLine parsed =
                        Main.commandLine(start.get(0)).getSubcommands().get(start.get(0));
                List<OptionSpec> options = parsed.getCommandSpec().options().stream()
                        .filter(option -> !option.usageHelp() && !option.versionHelp())
                        .toList();
                for (OptionSpec option : options) {
                    List<String> values = new ArrayList<>(List.of(VALUES));
                    Collections.shuffle(values, random);
                    int tried = option.arity().max() == 0 ? 1 : Math.min(VALUES_PER_OPTION, VALUES.length);
                    for (int i = 0; i < tried; i++) {
                        assertRefused(with(start, option, values.get(i)));
                    }
                }
                for (int i = 0; i < 5 * VALUES_PER_OPTION; i++) {
                    List<String> arguments = start;
                    for (int n = 2 + random.nextInt(4); n > 0; n--) {
                        OptionSpec option = options.get(random.nextInt(options.size()));
                        arguments = with(arguments, option, VALUES[random.nextInt(VALUES.length)]);
                    }
                    assertRefused(arguments);
                }
            }
        } finally {
            System.setErr(console);
        }
        assertTrue(runs > 200, runs + " command lines");
        AttackCount.inputs(runs, "command lines");
        assertEquals("", progress.toString(StandardCharsets.UTF_8), "something was measured");
    }

    private static List<String> with(List<String> arguments, OptionSpec option, String value) {
        var all = new ArrayList<>(arguments);
        all.add(option.longestName());
        if (option.arity().max() > 0) {
            all.add(value);
        }
        return all;
    }
}
