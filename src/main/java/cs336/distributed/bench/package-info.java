/**
 * Benchmarks of collectives, data-parallel training and optimizer state sharding, and the commands that run them.
 *
 * <p>Read first: {@link cs336.distributed.bench.AllReduceBenchmark} (how a collective is timed),
 * {@link cs336.distributed.bench.ToyTraining} (a correctness test of data parallelism),
 * {@link cs336.distributed.bench.DdpBenchmark} (how training steps are timed) and
 * {@link cs336.distributed.bench.ShardBenchmark} (memory, time and traffic of ZeRO stage 1).
 *
 * <p>May use {@code distributed.launch}, {@code distributed.training} and {@code profile.memory}, and the packages that
 * they may use.
 */
package cs336.distributed.bench;
