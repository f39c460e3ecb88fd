package cs336.profile;

import cs336.torch.Device;

/**
 * The kinds of events that a {@link Profiler} records in addition to ranges.
 *
 * @param cuda kernels, copies and CUDA API calls; needs a GPU
 * @param operators PyTorch's operators, such as those of forward and backward passes
 * @param shapes the shapes of the operators' inputs
 * @param memory every allocation and release; operators on threads other than the profiler's own and PyTorch's autograd
 *     threads are then not recorded
 * @throws IllegalArgumentException if {@code cuda} is true on a machine without a CUDA GPU, or {@code shapes} is true
 *     without operators
 */
public record ProfilerOptions(boolean cuda, boolean operators, boolean shapes, boolean memory) {
    public ProfilerOptions {
        if (cuda && Device.cudaCount() == 0) {
            throw new IllegalArgumentException("cuda must be false, not true: this machine has no CUDA GPU");
        }
        if (shapes && !operators) {
            throw new IllegalArgumentException("shapes must be false, not true: no operators are recorded");
        }
    }

    /** Returns the default: operators, GPUs if there are any, neither shapes nor memory. */
    public static ProfilerOptions standard() {
        return new ProfilerOptions(Device.cudaCount() > 0, true, false, false);
    }

    /** Returns these options without GPUs. */
    public ProfilerOptions cpuOnly() {
        return new ProfilerOptions(false, operators, shapes, memory);
    }

    /** Returns these options without operators and shapes. Recording then slows down launch-bound programs less. */
    public ProfilerOptions withoutOperators() {
        return new ProfilerOptions(cuda, false, false, memory);
    }

    /** Returns these options with input shapes. */
    public ProfilerOptions withShapes() {
        return new ProfilerOptions(cuda, operators, true, memory);
    }

    /** Returns these options with allocations and releases. */
    public ProfilerOptions withMemory() {
        return new ProfilerOptions(cuda, operators, shapes, true);
    }
}
