/**
 * Memory of a training step: the record of allocations, its timeline, its categories, and PyTorch's memory snapshot.
 */
package cs336.profile.memory;
