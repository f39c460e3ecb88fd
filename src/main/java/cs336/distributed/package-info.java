/**
 * Training on many processes: how ranks are started, meet, and talk, on PyTorch's own c10d with Gloo or NCCL
 * underneath.
 *
 * <p>A {@link cs336.distributed.launch.RankProgram} is what every rank runs. {@link cs336.distributed.launch.Launcher}
 * starts ranks on this machine, or takes part as one of the ranks that {@code srun} or {@code torchrun} started; where
 * a rank stands is its {@link cs336.distributed.collectives.World}, and what it talks through its
 * {@link cs336.distributed.collectives.ProcessGroup}.
 *
 * <p>Whatever goes wrong on one rank ends all of them within the launcher's timeout, with a message that names the rank
 * ({@link cs336.distributed.launch.RankFailure}).
 */
package cs336.distributed;
