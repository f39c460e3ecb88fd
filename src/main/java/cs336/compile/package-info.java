/**
 * A compiler for functions of tensors and training steps: a function is recorded once, its small operations are fused
 * into generated kernels, and a whole step becomes one CUDA graph.
 *
 * <p>Read first: {@link cs336.compile.CompiledStep}, a training step, and {@link cs336.compile.Compiled}, a function.
 * Then the packages in the order of the data: {@code trace}, {@code program}, {@code fuse}.
 *
 * <p>May use {@code compile.fuse} and {@code distributed.training}, and the packages that they may use.
 */
package cs336.compile;
