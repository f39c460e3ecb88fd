/**
 * Training steps that run faster than operator by operator. Read {@link cs336.compile.GraphedStep} first.
 *
 * <p>May use {@code kernels.runtime} and what that may use.
 */
package cs336.compile;
