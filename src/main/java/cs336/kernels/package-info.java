/**
 * CUDA kernels compiled at run time, and the differentiable functions that use them.
 *
 * <p>From source to launch: {@link cs336.kernels.runtime.KernelSource} → {@link cs336.kernels.runtime.KernelCompiler} →
 * {@link cs336.kernels.runtime.Cubin} → {@link cs336.kernels.runtime.KernelModule} →
 * {@link cs336.kernels.runtime.Kernel#launch}. All but the last two work without a card. Every function has a reference
 * in tensor operations, which runs where there is no CUDA; {@link cs336.kernels.runtime.KernelLog} shows which of both
 * ran.
 */
package cs336.kernels;
