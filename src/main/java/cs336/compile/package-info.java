/**
 * A compiler for functions of tensors and training steps: a function is recorded once, its small operations are fused
 * into generated kernels, and both passes of a step become a CUDA graph.
 *
 * <p>Read first: {@link cs336.compile.CompiledStep}, a training step, and {@link cs336.compile.Compiled}, a function.
 * Then the packages in the order of the data: {@code trace}, {@code program}, {@code fuse}.
 *
 * <p>In the terms of {@code torch.compile}: {@code Recorder} traces both passes, {@code Partition} is AOTAutograd's
 * min-cut partitioner, {@code Lowering} decomposes operators, {@code Fusion} is Inductor's scheduler,
 * {@code KernelEmitter} its code generation, and {@code KernelTile} a configuration of the autotuner. Matrix
 * multiplications and attention stay calls of existing kernels.
 *
 * <p>May use {@code compile.fuse} and {@code distributed.training}, and the packages that they may use.
 */
package cs336.compile;
