package cs336.distributed.launch;

import cs336.distributed.collectives.CollectiveBackend;
import picocli.CommandLine.Option;

/** The {@code --backend} option. */
final class BackendOption {
    @Option(
            names = "--backend",
            defaultValue = "gloo",
            paramLabel = "<name>",
            description =
                    "nccl (on GPUs) or gloo, which runs on the CPU even if there are GPUs, unless --device cuda is given")
    private String name;

    /**
     * Returns the chosen backend.
     *
     * @throws IllegalArgumentException if the name is unknown
     */
    CollectiveBackend value() {
        return CollectiveBackend.parse(name);
    }
}
