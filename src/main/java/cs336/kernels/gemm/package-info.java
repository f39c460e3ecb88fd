/**
 * fp32 matrix multiplication on tensor cores: {@link cs336.kernels.gemm.Tf32x3Gemm}.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.kernels.gemm;
