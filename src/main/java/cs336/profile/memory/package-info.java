/**
 * Memory of a training step: every allocation by category, its timeline, and PyTorch's memory snapshots.
 *
 * <p>Read {@link cs336.profile.memory.MemoryCategory} (the kinds of data), then
 * {@link cs336.profile.memory.MemoryProfile} (the recorder), {@link cs336.profile.memory.MemoryRecord} (the recording)
 * and {@link cs336.profile.memory.PassMemory} (the recording of a model).
 * {@link cs336.profile.memory.CheckpointingWorkload} measures activation checkpointing. May use {@code profile} and
 * {@code scaling.memory}, and the packages that they may use.
 */
package cs336.profile.memory;
