package cs336.distributed.launch;

import java.util.Map;
import java.util.function.IntFunction;

/**
 * Lets NCCL take the cards of one machine for those of several, joined by sockets: what it does between machines, on
 * one.
 */
final class EmulatedNodes {
    private EmulatedNodes() {}

    /** The environment of each rank; ranks of a node are neighbours. */
    static IntFunction<Map<String, String>> environment(int nodes, int processes) {
        return rank -> Map.of(
                "NCCL_HOSTID", "node" + rank * nodes / processes, "NCCL_NET", "Socket", "NCCL_SOCKET_IFNAME", "lo");
    }
}
