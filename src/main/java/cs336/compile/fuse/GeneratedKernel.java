package cs336.compile.fuse;

/**
 * A kernel that fusion generated.
 *
 * @param name the name of the first value that it computes
 * @param source the CUDA source
 * @param operations the number of pointwise operations and reductions that it joins
 * @param bytesSeparately the bytes that these operations would read and write if each had a kernel of its own
 * @param bytesMoved the bytes that the kernel reads and writes
 */
public record GeneratedKernel(String name, String source, int operations, long bytesSeparately, long bytesMoved) {}
