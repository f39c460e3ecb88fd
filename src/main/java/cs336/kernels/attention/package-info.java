/**
 * FlashAttention-2 as tensor operations and as CUDA kernels, and the benchmarks of attention.
 *
 * <p>Start with {@link cs336.kernels.attention.FlashVariant}, the formulas and mask conventions of all variants; then
 * {@link cs336.kernels.attention.TiledFlash}, the algorithm in tensor operations;
 * {@link cs336.kernels.attention.FirstFlash} with {@code kernels/flash_first.cu}, the same algorithm as CUDA kernels;
 * and {@link cs336.kernels.attention.AttentionBenchmark}, which times any implementation. The fast kernels are
 * {@link cs336.kernels.attention.MmaFlash} and {@link cs336.kernels.attention.HopperFlash}.
 *
 * <p>May use {@code kernels.runtime} and {@code scaling.memory}, and the packages that they may use.
 */
package cs336.kernels.attention;
