/**
 * Benchmarks of collectives, data-parallel training, optimizer state sharding and FSDP, training with checkpoints, and
 * the commands that run them.
 *
 * <p>Read first: {@link cs336.distributed.bench.AllReduceBenchmark} (how a collective is timed),
 * {@link cs336.distributed.bench.ToyTraining} (a correctness test of data parallelism),
 * {@link cs336.distributed.bench.DdpBenchmark} (how training steps are timed),
 * {@link cs336.distributed.bench.ShardBenchmark} (memory, time and traffic of ZeRO stage 1),
 * {@link cs336.distributed.bench.FsdpBenchmark} (the same of FSDP),
 * {@link cs336.distributed.bench.CheckpointedTraining} (training that survives failures of its ranks).
 *
 * <p>May use {@code checkpoints}, {@code compile}, {@code distributed.launch}, {@code profile.memory} and
 * {@code scaling}, and the packages that they may use.
 */
package cs336.distributed.bench;
