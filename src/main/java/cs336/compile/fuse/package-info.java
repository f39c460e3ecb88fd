/**
 * Passes that turn a recorded program into one with few generated kernels.
 *
 * <p>Read in the order of the passes, which {@link cs336.compile.fuse.FusionPasses} lists:
 *
 * <ol>
 *   <li>{@code AttentionFusion} replaces plain attention.
 *   <li>{@code Lowering} rewrites operators as pointwise operations and reductions.
 *   <li>{@code Simplification} removes unnecessary operations.
 *   <li>{@code LinearGemms} replaces matrix multiplications of linear layers for which this project has a faster
 *       kernel.
 *   <li>{@code GemmMerging} runs others with a common operand as one.
 *   <li>{@code Fusion} forms groups of operations.
 *   <li>{@code KernelEmitter} writes the CUDA source of a group: a {@code RowWiseKernel}, or {@code ColumnSumKernels}.
 *   <li>{@code Fp32Gemms} moves other fp32 matrix multiplications to tensor cores.
 * </ol>
 *
 * <p>May use {@code compile.trace} and {@code kernels.gemm}, and the packages that they may use.
 */
package cs336.compile.fuse;
