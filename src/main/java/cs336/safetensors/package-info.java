/**
 * Files of named tensors in Hugging Face's format.
 *
 * <p>Start with {@link cs336.safetensors.Safetensors}.
 *
 * <p>May use {@code torch}.
 */
package cs336.safetensors;
