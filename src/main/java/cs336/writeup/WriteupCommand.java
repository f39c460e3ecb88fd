package cs336.writeup;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code cs336 writeup}: builds the writeup. */
@Command(
        name = "writeup",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Builds the writeup as one HTML page and as a PDF.",
            "A number, figure or table that cannot be resolved stops it: exit code 1, and each problem with its file and line."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  cs336 writeup", "  cs336 writeup writeup --output /tmp/writeup"})
public final class WriteupCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(
            arity = "0..1",
            paramLabel = "FOLDER",
            defaultValue = "writeup",
            description = "Folder with writeup.md (default: ${DEFAULT-VALUE}).")
    private Path folder;

    @Option(
            names = "--output",
            paramLabel = "FOLDER",
            defaultValue = "target/writeup",
            description = "Where writeup.html and writeup.pdf are written (default: ${DEFAULT-VALUE}).")
    private Path output;

    /** Made by picocli. */
    public WriteupCommand() {}

    @Override
    public Integer call() {
        var err = spec.commandLine().getErr();
        if (!Files.isRegularFile(folder.resolve("writeup.md"))) {
            throw new ParameterException(spec.commandLine(), "no writeup.md in " + folder);
        }
        try {
            Writeup.read(folder).save(output);
        } catch (WriteupException e) {
            err.println(e.getMessage());
            return 1;
        } catch (IOException e) {
            err.println("cannot build " + folder + ": " + e.getMessage());
            return 1;
        }
        spec.commandLine().getOut().println(output.resolve("writeup.html") + "\n" + output.resolve("writeup.pdf"));
        return 0;
    }
}
