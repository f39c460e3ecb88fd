package cs336.kernels.gemm;

import cs336.kernels.runtime.Gpu;

/**
 * The layout of a block's shared memory from an aligned address on: as many stages of operands as fit, at most 6, with
 * two barriers per ring of buffers; then anything else.
 *
 * @param operandBytes bytes of the operands of a stage
 * @param rings rings of buffers, in which the operands of a stage are loaded and freed separately
 * @param otherBytes bytes of everything else
 */
record SharedMemoryLayout(int operandBytes, int rings, int otherBytes) {
    /** Bytes of a barrier. */
    static final int BARRIER_BYTES = 8;

    private static final int SWIZZLE_ALIGNMENT = 1024; // of buffers that TMA swizzles
    private static final int MOST_STAGES = 6;

    private int stageBytes() {
        return operandBytes + rings * 2 * BARRIER_BYTES;
    }

    int stages() {
        return Math.min(MOST_STAGES, (Gpu.HOPPER_SHARED_BYTES - SWIZZLE_ALIGNMENT - otherBytes) / stageBytes());
    }

    int bytes() {
        return SWIZZLE_ALIGNMENT + stages() * stageBytes() + otherBytes;
    }
}
