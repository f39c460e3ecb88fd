/** Process groups and collectives on PyTorch's c10d, with Gloo or NCCL. */
package cs336.distributed.collectives;
