package cs336.bench;

import java.nio.file.Path;
import picocli.CommandLine.Option;

/** The option of a command whose cases leave files: in which folder. */
public final class FolderOptions {
    @Option(
            names = "--folder",
            paramLabel = "<folder>",
            description = "where each case leaves its files. Default: ${DEFAULT-VALUE}")
    private Path folder;

    /** The option of a command that uses this folder unless the user says otherwise. */
    public FolderOptions(String usual) {
        folder = Path.of(usual);
    }

    /** The folder of all cases' folders. */
    public Path path() {
        return folder;
    }
}
