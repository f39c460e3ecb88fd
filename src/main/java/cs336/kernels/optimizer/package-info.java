/**
 * Optimizer steps as CUDA kernels: {@link cs336.kernels.optimizer.MultiTensorAdamW}.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.kernels.optimizer;
