/**
 * Training a language model from the command line: {@link cs336.train.TrainCommand}.
 *
 * <p>May use {@code compile} and {@code checkpoints}, and the packages that they may use.
 */
package cs336.train;
