package cs336.distributed.bench;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import java.io.IOException;
import java.util.OptionalLong;

/** Bytes that have left this rank, counted below the libraries that send them. */
final class SentBytes {
    private SentBytes() {}

    /**
     * Until now: through this process's sockets, and with NCCL also through the NVLinks of this rank's card, which
     * belongs to no one else. Nothing where NVLinks do not tell.
     */
    static OptionalLong of(ProcessGroup group) throws IOException {
        long bySockets = SocketBytes.sent();
        if (group.backend() == CollectiveBackend.GLOO) {
            return OptionalLong.of(bySockets);
        }
        OptionalLong byLinks = NvLinkBytes.sent(group.device());
        return byLinks.isPresent() ? OptionalLong.of(bySockets + byLinks.getAsLong()) : byLinks;
    }
}
