/**
 * Passes that turn a recorded program into one with few generated kernels.
 *
 * <p>Read in the order of the passes: {@link cs336.compile.fuse.FusionPasses} lists them, {@code AttentionFusion}
 * replaces plain attention, {@code Lowering} rewrites operators as pointwise operations and reductions,
 * {@code Simplification} removes unnecessary operations, {@code GemmMerging} runs matrix multiplications with a common
 * operand as one and replaces those of linear layers for which this project has a faster kernel, {@code Fusion} forms
 * groups of operations, {@code KernelEmitter} writes the CUDA source of a group, and {@code Fp32Gemms} moves other fp32
 * matrix multiplications to tensor cores.
 *
 * <p>May use {@code compile.trace} and {@code kernels.gemm}, and the packages that they may use.
 */
package cs336.compile.fuse;
