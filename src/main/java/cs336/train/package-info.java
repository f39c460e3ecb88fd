/**
 * Training a language model from the command line: {@link cs336.train.TrainCommand}.
 *
 * <p>May use {@code compile}, and the packages that it may use.
 */
package cs336.train;
