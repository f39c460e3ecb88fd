/**
 * CUDA kernels compiled at run time, and the differentiable functions that use them.
 *
 * <p>From source to launch: {@link cs336.kernels.KernelSource} → {@link cs336.kernels.KernelCompiler} → {@link
 * cs336.kernels.Cubin} → {@link cs336.kernels.KernelModule} → {@link cs336.kernels.Kernel#launch}. All but the last two work
 * without a card. Every function has a reference in tensor operations, which runs where there is no CUDA; {@link
 * cs336.kernels.KernelLog} shows which of both ran.
 */
package cs336.kernels;
