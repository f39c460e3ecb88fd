/**
 * Matrix multiplication on tensor cores: {@link cs336.kernels.gemm.Tf32x3Gemm} with the accuracy of fp32,
 * {@link cs336.kernels.gemm.Tf32Gemm} with that of TF32.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.kernels.gemm;
