package cs336.profile;

import cs336.bench.ArgumentCheck;
import java.io.IOException;
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

    /**
     * Checks that the cases can write files. Does not create the folder.
     *
     * @throws IllegalArgumentException if the name is empty
     * @throws IOException if files cannot be created in the folder
     */
    public void requireWritable() throws IOException {
        ArgumentCheck.writableFolder("--folder", folder);
    }
}
