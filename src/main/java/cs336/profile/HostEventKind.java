package cs336.profile;

/**
 * The kinds of {@link HostEvent}. The order matters: of two events on one thread with the same start and duration, the
 * one whose kind comes first here is the parent.
 */
public enum HostEventKind {
    /** A named range of {@link cs336.torch.ProfilerRange} or Python's {@code record_function}. */
    RANGE,
    /** A Gloo collective, on the Gloo thread that runs it. */
    COLLECTIVE,
    /** A Python function, in traces recorded by Python. */
    PYTHON,
    /** A PyTorch operator or a node of the backward pass. */
    OP,
    /** A call of the CUDA runtime or driver API. */
    CALL
}
