package cs336.bench;

import java.nio.file.Path;
import picocli.CommandLine.Option;

/** The --folder option of commands whose cases write files. */
public final class FolderOptions {
    @Option(names = "--folder", paramLabel = "<folder>", description = "folder for the files of all cases")
    private Path folder;

    /** @param defaultFolder the folder if --folder is not given */
    public FolderOptions(String defaultFolder) {
        folder = Path.of(defaultFolder);
    }

    /** Returns the folder that contains a folder for each case. */
    public Path path() {
        return folder;
    }
}
