package cs336.site;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** The command {@code site}: builds a website of executed notebooks and the writeup. */
@Command(
        name = "site",
        description = {
            "Builds a website of the executed notebooks and the writeup, which works without a web server.",
            "Run 'notebooks' and 'writeup' before, or all three with 'report'. Exit code 1 if a link leads nowhere."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  ./cs336 site", "  ./cs336 site --output /tmp/site"})
public final class SiteCommand extends LabCommand {
    @Option(
            names = "--notebooks",
            paramLabel = "<folder>",
            defaultValue = "target/notebooks",
            description = "folder with the pages of executed notebooks")
    private Path notebooks;

    @Option(
            names = "--writeup",
            paramLabel = "<folder>",
            defaultValue = "target/writeup",
            description = "folder with writeup.html and writeup.pdf")
    private Path writeup;

    @Option(
            names = "--output",
            paramLabel = "<folder>",
            defaultValue = "target/site",
            description = "folder of the website")
    private Path output;

    @Override
    public Integer call() throws IOException {
        checked(() -> {
            ArgumentCheck.writableFolder("--output", output);
            requireFolders();
            return null;
        });
        List<String> dead = Site.build(Project.path(""), notebooks, writeup, output);
        dead.forEach(spec.commandLine().getErr()::println);
        out().println("website: " + output.resolve("index.html"));
        out().flush();
        return dead.isEmpty() ? 0 : 1;
    }

    private void requireFolders() throws IOException {
        if (!hasPages(notebooks)) {
            throw new IllegalArgumentException(
                    "--notebooks must be a folder with executed notebooks, not '" + notebooks + "'");
        }
        if (!Files.exists(writeup.resolve("writeup.html"))
                && spec.commandLine().getParseResult().hasMatchedOption("--writeup")) {
            throw new IllegalArgumentException("--writeup must be a folder with writeup.html, not '" + writeup + "'");
        }
        for (Path input : List.of(notebooks, writeup)) {
            if (Files.exists(input) && Files.exists(output) && Files.isSameFile(input, output)) {
                throw new IllegalArgumentException("--output must not be the folder " + input + ", which is read");
            }
        }
    }

    private static boolean hasPages(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return false;
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.anyMatch(file -> file.toString().endsWith(".html"));
        }
    }
}
