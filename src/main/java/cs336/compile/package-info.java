/**
 * Training steps with less launch overhead than one call per operator. Read {@link cs336.compile.GraphedStep} first.
 *
 * <p>This package may use {@code kernels.runtime} and the packages that {@code kernels.runtime} may use.
 */
package cs336.compile;
