/**
 * CUDA kernels that are compiled at run time, and the differentiable functions that use them.
 *
 * <p>{@link cs336.kernels.KernelsCommand} compiles the kernels of norms and attention and reports their resources.
 * Start with {@link cs336.kernels.runtime.KernelSource} and {@link cs336.kernels.runtime.Kernel}, from source to
 * launch; then {@link cs336.kernels.norms.FusedRmsNorm}, a small kernel with its autograd function; then
 * {@link cs336.kernels.attention.FlashVariant}. Each function has a reference in tensor operations, which also runs
 * without CUDA; {@link cs336.kernels.runtime.KernelLog} records which of the two ran.
 *
 * <p>May use {@code kernels.runtime}, {@code kernels.norms} and {@code kernels.attention}, and the packages that those
 * use.
 */
package cs336.kernels;
