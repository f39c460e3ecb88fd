package cs336.distributed.collectives;

/**
 * The ranks of a group as a mesh of replicas × shards, as in hybrid sharding: consecutive ranks form a shard group, and
 * the ranks at the same position of each shard group form a replica group. If a node has as many ranks as a shard
 * group, only replica groups communicate across nodes.
 *
 * @param all the group of all ranks of the mesh
 * @param shards the shard group of this rank, among which one copy of the state is divided
 * @param replicas the replica group of this rank, whose ranks have equal shards; null if there is only one replica;
 *     {@code shards} is then {@code all}
 * @see ProcessGroup#mesh
 */
public record DeviceMesh(ProcessGroup all, ProcessGroup shards, ProcessGroup replicas) {
    /** Returns the index of this rank's shard group, from 0. */
    public int replica() {
        return replicas == null ? 0 : replicas.rank();
    }
}
