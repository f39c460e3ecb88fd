package cs336.checkpoints;

import cs336.bench.ArgumentCheck;
import java.io.IOException;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/** The checkpointing options of every command that trains: {@code --checkpoint}, its interval, and {@code --resume}. */
public final class ResumeOptions {
    private static final int DEFAULT_EVERY = 100;

    @Option(
            names = "--checkpoint",
            paramLabel = "<folder>",
            description = "folder of the checkpoints, of which the last two are kept. Default: none are saved")
    private Path folder;

    @Option(
            names = "--checkpoint-every",
            paramLabel = "<n>",
            description = "steps between two checkpoints; the last step always saves one. Default: " + DEFAULT_EVERY)
    private Integer every;

    @Option(
            names = "--resume",
            description =
                    "continue from the last checkpoint in the folder, if there is one, with the options of this command"
                            + " line; those that differ from the checkpoint's, such as --lr, are printed. A model with"
                            + " other parameters is an error")
    private boolean resume;

    /** Returns whether checkpoints are saved. */
    public boolean areGiven() {
        return folder != null;
    }

    /**
     * Checks the options.
     *
     * @param isRestarted whether this process continues a failed run, as with --resume
     * @return the checkpoints to save; null if --checkpoint is not given
     * @throws IllegalArgumentException if an option has no effect or is out of range, or the folder has checkpoints of
     *     another run
     * @throws IOException if files cannot be created in the folder
     */
    public CheckpointSettings settings(boolean isRestarted) throws IOException {
        if (folder == null) {
            if (resume || every != null) {
                throw new IllegalArgumentException(
                        (resume ? "--resume" : "--checkpoint-every") + " needs --checkpoint <folder>");
            }
            return null;
        }
        int interval = every == null ? DEFAULT_EVERY : ArgumentCheck.atLeast("--checkpoint-every", 1, every);
        ArgumentCheck.writableFolder("--checkpoint", folder);
        long last = CheckpointFolder.lastStep(folder);
        if (!resume && !isRestarted && last >= 0) {
            throw new IllegalArgumentException("--checkpoint " + folder + " has a checkpoint of step " + last
                    + ": add --resume to continue from it, or select another folder");
        }
        return new CheckpointSettings(folder.toString(), interval, resume || isRestarted);
    }
}
