/** Starts ranks as processes, on this machine or under Slurm and torchrun, and ends all of them when one fails. */
package cs336.distributed.launch;
