/**
 * From CUDA source to a launch: {@link cs336.kernels.runtime.KernelSource} →
 * {@link cs336.kernels.runtime.KernelCompiler} → {@link cs336.kernels.runtime.Cubin} →
 * {@link cs336.kernels.runtime.KernelModule} → {@link cs336.kernels.runtime.Kernel#launch}. All but the last two work
 * without a GPU.
 */
package cs336.kernels.runtime;
