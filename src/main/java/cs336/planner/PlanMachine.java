package cs336.planner;

import cs336.bench.ArgumentCheck;
import cs336.scaling.Accelerator;
import cs336.units.Bytes;
import java.util.List;

/** A GPU for which steps are planned. */
public enum PlanMachine {
    /** NVIDIA H200, on which the stored measurements were made. */
    H200("h200", Accelerator.H200, Bytes.parse("139.8 GiB")),
    /** NVIDIA H100: the chip of the H200 with less memory, and a memory bandwidth of 3.35 instead of 4.8 TB/s. */
    H100("h100", Accelerator.H100, Bytes.parse("79.1 GiB"));

    /** Memory that is not available to PyTorch's allocator: the CUDA context, loaded kernels and buffers of NCCL. */
    private static final Bytes RESERVED = Bytes.parse("1 GiB");

    private static final double H200_BANDWIDTH = 4.8;
    private static final double H100_BANDWIDTH = 3.35;

    private final String label;
    private final Accelerator accelerator;
    private final Bytes memory;

    /** @param memory total memory of the device as CUDA reports it, which is more than the data sheet's */
    PlanMachine(String label, Accelerator accelerator, Bytes memory) {
        this.label = label;
        this.accelerator = accelerator;
        this.memory = memory;
    }

    /** Returns the data sheet specifications. */
    public Accelerator accelerator() {
        return accelerator;
    }

    /** Returns the memory that tensors may use: 1 GiB less than the device has. */
    public Bytes usable() {
        return new Bytes(memory.count() - RESERVED.count());
    }

    /** Returns the memory bandwidth in relation to that of the H200, by the data sheets. */
    double bandwidthRatio() {
        return this == H200 ? 1 : H100_BANDWIDTH / H200_BANDWIDTH;
    }

    /**
     * Parses {@code h200} or {@code h100}.
     *
     * @throws IllegalArgumentException if the label is neither of these
     */
    public static PlanMachine parse(String label) {
        return ArgumentCheck.oneOf("machine", label, List.of(values()));
    }

    @Override
    public String toString() {
        return label;
    }
}
