/**
 * RMSNorm and the weighted sum as fused CUDA kernels, and the benchmarks of both.
 *
 * <p>Read first: {@link cs336.kernels.norms.WeightedSum}, the smallest autograd function with kernels;
 * {@link cs336.kernels.norms.RmsNormFunction}, the formulas of RMSNorm in tensor operations;
 * {@link cs336.kernels.norms.FusedRmsNorm}, the same as kernels; {@link cs336.kernels.norms.RmsNormTile} with
 * {@code kernels/rmsnorm.cu}, which explain why the kernels are memory-bound and how they come close to the measured
 * copy bandwidth.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.kernels.norms;
