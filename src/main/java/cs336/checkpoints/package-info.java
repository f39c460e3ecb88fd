/**
 * The checkpoints of a training run: when they are saved, and how a run continues from the last one.
 *
 * <p>Read first: {@link cs336.checkpoints.CheckpointFolder} (saves in the background, finds the last intact
 * checkpoint), {@link cs336.checkpoints.ResumeOptions} (the options of all commands that train).
 *
 * <p>May use {@code bench}, and the packages that it may use.
 */
package cs336.checkpoints;
