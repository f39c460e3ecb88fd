/** Benchmarks of collectives, data parallelism and optimizer sharding, and the commands that run them. */
package cs336.distributed.bench;
