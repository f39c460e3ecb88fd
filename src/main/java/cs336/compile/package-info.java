/**
 * Training steps recorded as CUDA graphs, which removes launch overhead. Read {@link cs336.compile.CompiledStep} first.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.compile;
