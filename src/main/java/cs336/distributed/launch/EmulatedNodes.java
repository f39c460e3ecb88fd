package cs336.distributed.launch;

import java.util.Map;
import java.util.function.IntFunction;

/**
 * Environment variables that make NCCL treat groups of GPUs of one machine as separate machines, connected by sockets.
 */
final class EmulatedNodes {
    private EmulatedNodes() {}

    /** Returns the environment of each rank. Consecutive ranks are on the same emulated node. */
    static IntFunction<Map<String, String>> environment(int nodes, int processes) {
        return rank -> Map.of(
                "NCCL_HOSTID", "node" + rank * nodes / processes, "NCCL_NET", "Socket", "NCCL_SOCKET_IFNAME", "lo");
    }
}
