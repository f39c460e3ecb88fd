/**
 * A compiler for functions of tensors and for training steps. It records a function once and fuses its small operations
 * into generated kernels. Both passes of a step become a CUDA graph.
 *
 * <p>Read first: {@link cs336.compile.CompiledStep}, a training step, and {@link cs336.compile.Compiled}, a function.
 * Then the packages in the order of the data: {@code trace}, {@code program}, {@code fuse}.
 *
 * <p>The classes correspond to those of {@code torch.compile}:
 *
 * <ul>
 *   <li>{@code Recorder} traces both passes.
 *   <li>{@code Partition} is AOTAutograd's min-cut partitioner.
 *   <li>{@code Lowering} decomposes operators.
 *   <li>{@code Fusion} is Inductor's scheduler.
 *   <li>{@code KernelEmitter} is Inductor's code generation.
 *   <li>{@code KernelTile} is a configuration of the autotuner.
 * </ul>
 *
 * <p>Matrix multiplications and attention stay calls of existing kernels.
 *
 * <p>May use {@code compile.fuse} and {@code distributed.training}, and the packages that they may use.
 */
package cs336.compile;
