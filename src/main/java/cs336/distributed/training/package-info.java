/** Data parallelism and the sharded optimizer. */
package cs336.distributed.training;
