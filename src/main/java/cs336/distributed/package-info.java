/**
 * Distributed training in Java, on PyTorch's c10d with Gloo or NCCL.
 *
 * <p>Read the packages in this order:
 *
 * <ol>
 *   <li>{@link cs336.distributed.collectives}: a {@link cs336.distributed.collectives.World} holds a rank and the world
 *       size, and a {@link cs336.distributed.collectives.ProcessGroup} runs its collectives.
 *   <li>{@link cs336.distributed.launch}: a {@link cs336.distributed.launch.RankProgram} is the code of every rank, and
 *       a {@link cs336.distributed.launch.Launcher} runs it, on this machine or under {@code srun} and
 *       {@code torchrun}.
 *   <li>{@link cs336.distributed.training}: data parallelism, the sharded optimizer and FSDP.
 *   <li>{@link cs336.distributed.bench}: the benchmarks of all of these.
 * </ol>
 *
 * <p>A failure on one rank ends all ranks within the launcher's timeout, with a
 * {@link cs336.distributed.launch.RankFailure} that names the rank and the cause.
 */
package cs336.distributed;
