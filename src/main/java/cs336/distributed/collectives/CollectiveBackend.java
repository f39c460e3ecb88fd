package cs336.distributed.collectives;

import cs336.bench.ArgumentCheck;
import cs336.torch.DeviceKind;
import java.util.List;
import java.util.Locale;

/** The library that implements the collectives. */
public enum CollectiveBackend {
    /**
     * Gloo: communicates over TCP. Supports tensors on the CPU and, through a copy on the CPU, on a GPU. Several ranks
     * may share a GPU.
     */
    GLOO,
    /** NCCL: communicates between GPUs. Needs one GPU per rank. */
    NCCL;

    /**
     * Parses {@code gloo} or {@code nccl}.
     *
     * @throws IllegalArgumentException if the name is neither
     */
    public static CollectiveBackend parse(String name) {
        return ArgumentCheck.oneOf("backend", name, List.of(values()));
    }

    /** Returns the kind of device on which ranks compute by default. */
    public DeviceKind defaultDevice() {
        return this == NCCL ? DeviceKind.CUDA : DeviceKind.CPU;
    }

    /** Returns the name on the command line: {@code gloo} or {@code nccl}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
