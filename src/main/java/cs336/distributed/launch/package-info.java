/**
 * Starts a program on several ranks, on this machine or under Slurm and torchrun, and ends all ranks when one fails.
 *
 * <p>Read first: {@link cs336.distributed.launch.RankProgram} (the code of every rank),
 * {@link cs336.distributed.launch.Hello} (an example), {@link cs336.distributed.launch.Launcher} (starts or joins the
 * ranks), {@link cs336.distributed.launch.RankFailure} (how a run fails).
 *
 * <p>May use {@code distributed.collectives}, and the packages that it may use.
 */
package cs336.distributed.launch;
