/**
 * Compilation, loading and launch of CUDA kernels.
 *
 * <p>Read first, in the order of use: {@link cs336.kernels.runtime.KernelSource}, a source with its includes;
 * {@link cs336.kernels.runtime.KernelCompiler}, NVRTC with a cache, which makes a {@link cs336.kernels.runtime.Cubin};
 * {@link cs336.kernels.runtime.KernelModule}, a cubin on a GPU; {@link cs336.kernels.runtime.Kernel}, which launches.
 * Source and compiler work without a GPU.
 *
 * <p>May use {@code bench}, and the packages that it may use.
 */
package cs336.kernels.runtime;
