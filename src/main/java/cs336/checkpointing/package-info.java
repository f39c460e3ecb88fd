/**
 * Activation checkpointing: functions that keep only their inputs and are recomputed in the backward pass, and the
 * policies that state which activations of a model are kept.
 *
 * <p>Start with {@link cs336.checkpointing.ActivationCheckpoint} (the function) and
 * {@link cs336.checkpointing.CheckpointPolicy} (the policies).
 *
 * <p>May use {@code torch}.
 */
package cs336.checkpointing;
