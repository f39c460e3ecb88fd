/**
 * What can be said before anything runs: memory, traffic and time of training on many devices, and how loss falls with
 * size.
 *
 * <ul>
 *   <li>Amounts have types ({@link cs336.units.Bytes}, {@link cs336.units.Flop}, {@link cs336.units.Tokens},
 *       {@link cs336.units.Seconds}), so that GB and GiB, or tokens and sequences, are not taken for one another.
 *   <li>On them build accounting in closed form ({@link cs336.scaling.DeviceMemory},
 *       {@link cs336.scaling.StepCommunication}, {@link cs336.scaling.ComputeBound}) and a simulation of one training
 *       step ({@link cs336.scaling.Simulation}, {@link cs336.scaling.SimulatedStep}) that is fitted to measurements
 *       ({@link cs336.scaling.Calibration}).
 *   <li>Two formulas by themselves: of a ring ({@link cs336.scaling.RingAllReduce}) and of buckets
 *       ({@link cs336.scaling.BucketModel}).
 *   <li>Scaling laws from training runs of several compute budgets ({@link cs336.scaling.laws.IsoFlops}).
 * </ul>
 */
package cs336.scaling;
