/**
 * Data parallelism (DDP), the sharded optimizer (ZeRO stage 1), and sharded parameters (FSDP and HSDP).
 *
 * <p>Read first: {@link cs336.distributed.training.Strategy} (when gradients are all-reduced),
 * {@link cs336.distributed.training.DistributedDataParallel} (averages gradients over ranks),
 * {@link cs336.distributed.training.Sharding} (how parameters are divided),
 * {@link cs336.distributed.training.ShardedOptimizer} (each rank updates its own shard),
 * {@link cs336.distributed.training.FullyShardedDataParallel} (each rank holds a shard of the parameters).
 *
 * <p>May use {@code distributed.collectives}, and the packages that it may use.
 */
package cs336.distributed.training;
