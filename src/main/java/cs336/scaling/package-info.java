/**
 * Predictions of the memory, communication and time of training steps.
 *
 * <p>Read first:
 *
 * <ol>
 *   <li>{@link cs336.scaling.RingAllReduce}: the cost of an all-reduce, and how it is fitted to measurements.
 *   <li>{@link cs336.scaling.memory.ModelMemory}: the memory of a model, tensor by tensor.
 *   <li>{@link cs336.scaling.Mesh}, with {@link cs336.scaling.DeviceMemory} and
 *       {@link cs336.scaling.StepCommunication}: the tensors that each device of a mesh holds, and the bytes that it
 *       sends.
 *   <li>{@link cs336.scaling.SimulatedStep}: one training step as a discrete-event {@link cs336.scaling.Simulation},
 *       with overheads from a {@link cs336.scaling.Calibration}.
 * </ol>
 *
 * <p>Quantities have types ({@link cs336.units.Bytes}, {@link cs336.units.Flop}, {@link cs336.units.Tokens},
 * {@link cs336.units.Seconds}), so that units are not mixed up. The package {@code cs336.scaling.laws} predicts the
 * loss instead.
 *
 * <p>May use {@code scaling.memory}, and the packages that it may use.
 */
package cs336.scaling;
