/**
 * Training a language model from the command line: {@link cs336.train.TrainCommand}.
 *
 * <p>This package may use {@code compile} and the packages that {@code compile} may use.
 */
package cs336.train;
