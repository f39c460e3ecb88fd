/**
 * Matrix multiplication on tensor cores: of fp32 tensors with the accuracy of fp32 or TF32
 * ({@link cs336.kernels.gemm.Fp32Gemm}, and {@link cs336.kernels.gemm.Tf32Gemm} for the forward pass of linear layers),
 * and of 16-bit tensors with fp32 weights ({@link cs336.kernels.gemm.MixedGemm}). The last two can store a function of
 * the result, such as SwiGLU ({@link cs336.kernels.gemm.Epilogue}).
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.kernels.gemm;
