/**
 * The loss of language models as a CUDA kernel: {@link cs336.kernels.loss.FusedCrossEntropy}.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.kernels.loss;
