/**
 * Recorded functions of tensors.
 *
 * <p>Read {@link cs336.compile.program.Program} first, then {@link cs336.compile.program.Operation} and
 * {@link cs336.compile.program.Layout}; {@link cs336.compile.program.Interpreter} runs a program.
 *
 * <p>May use {@code kernels.runtime}, and the packages that it may use.
 */
package cs336.compile.program;
