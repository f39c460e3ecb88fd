/**
 * CUDA kernels that are compiled at run time, and the differentiable functions that use them.
 *
 * <p>{@link cs336.kernels.KernelsCommand} compiles the kernels of norms, attention and optimizer and reports their
 * resources. Start with {@link cs336.kernels.runtime.KernelSource} and {@link cs336.kernels.runtime.Kernel}, from
 * source to launch; then {@link cs336.kernels.norms.FusedRmsNorm}, a small kernel with its autograd function; then
 * {@link cs336.kernels.attention.FlashVariant}. Each function has a reference in tensor operations, which also runs
 * without CUDA; {@link cs336.kernels.runtime.KernelLog} records whether the kernel or the reference ran.
 *
 * <p>May use {@code kernels.norms}, {@code kernels.attention}, {@code kernels.gemm}, {@code kernels.loss} and
 * {@code kernels.optimizer}, and the packages that they may use.
 */
package cs336.kernels;
