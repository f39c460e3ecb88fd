package cs336.distributed.bench;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import java.io.IOException;
import java.util.OptionalLong;

/** The bytes that this rank has sent, according to counters below the communication libraries. */
final class SentBytes {
    private SentBytes() {}

    /**
     * Returns the bytes sent so far through this process's sockets and, with NCCL, through the NVLinks of this rank's
     * GPU, which no other process may use. Empty if the NVLinks have no counters.
     */
    static OptionalLong of(ProcessGroup group) throws IOException {
        long sockets = SocketBytes.sent();
        if (group.backend() == CollectiveBackend.GLOO) {
            return OptionalLong.of(sockets);
        }
        OptionalLong nvLinks = NvLinkBytes.sent(group.device());
        return nvLinks.isPresent() ? OptionalLong.of(sockets + nvLinks.getAsLong()) : nvLinks;
    }
}
