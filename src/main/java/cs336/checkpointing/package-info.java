/**
 * Activation checkpointing. Checkpointed functions keep only their inputs, on the device or in host memory, and are
 * recomputed in the backward pass. Policies state which activations of a model are kept.
 *
 * <p>Start with {@link cs336.checkpointing.ActivationCheckpoint} (the function),
 * {@link cs336.checkpointing.CheckpointPolicy} (the policies) and {@link cs336.checkpointing.HostStore} (host memory).
 *
 * <p>May use {@code torch}.
 */
package cs336.checkpointing;
