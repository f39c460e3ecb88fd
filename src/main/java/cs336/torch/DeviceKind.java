package cs336.torch;

/** The kinds of device that tensors can be on. */
public enum DeviceKind {
    CPU,
    CUDA
}
