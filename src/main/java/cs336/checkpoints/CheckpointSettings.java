package cs336.checkpoints;

import java.io.Serializable;

/**
 * The checkpoints of a training run, as {@link ResumeOptions} select them.
 *
 * @param folder the folder of the checkpoints
 * @param every steps between two checkpoints; the last step always saves one
 * @param resume whether to continue from the last checkpoint in the folder, if there is one
 */
public record CheckpointSettings(String folder, int every, boolean resume) implements Serializable {
    /**
     * Returns whether a checkpoint is saved after a step.
     *
     * @param step the number of steps done
     * @param lastStep the number of steps of the whole run
     */
    public boolean follows(long step, long lastStep) {
        return step % every == 0 || step == lastStep;
    }
}
