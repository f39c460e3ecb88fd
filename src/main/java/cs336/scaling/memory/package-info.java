/**
 * The predicted memory of a model on one GPU, tensor by tensor.
 *
 * <p>Read first: {@link cs336.scaling.memory.ModelMemory}, and {@link cs336.scaling.memory.AttentionMemory} for one
 * attention layer. {@code cs336.scaling} divides this memory among devices.
 *
 * <p>May use {@code numbers}, and the packages that it may use.
 */
package cs336.scaling.memory;
