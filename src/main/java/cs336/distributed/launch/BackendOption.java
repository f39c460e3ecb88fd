package cs336.distributed.launch;

import cs336.distributed.collectives.CollectiveBackend;
import picocli.CommandLine.Option;

/** The option by what ranks talk. */
final class BackendOption {
    @Option(
            names = "--backend",
            defaultValue = "gloo",
            paramLabel = "<name>",
            description = "gloo (on the CPU, unless --device says cuda) or nccl (on cards). Default: ${DEFAULT-VALUE}")
    private String name;

    /** @throws IllegalArgumentException if it is neither */
    CollectiveBackend value() {
        return CollectiveBackend.parse(name);
    }
}
