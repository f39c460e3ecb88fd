/**
 * Process groups and collectives on PyTorch's c10d, with Gloo or NCCL. Ranks find each other through a store, and each
 * failure names a rank and a collective.
 *
 * <p>Read first: {@link cs336.distributed.collectives.World} (rank and world size),
 * {@link cs336.distributed.collectives.ProcessGroup} (the collectives),
 * {@link cs336.distributed.collectives.DeviceMesh} (subgroups of replicas and shards),
 * {@link cs336.distributed.collectives.Rendezvous} (how ranks find each other),
 * {@link cs336.distributed.collectives.CollectiveLog} (how ranks notice that they call different collectives),
 * {@link cs336.distributed.collectives.RankWatch} (how ranks learn which of them failed first).
 *
 * <p>May use {@code bench}, and the packages that it may use.
 */
package cs336.distributed.collectives;
