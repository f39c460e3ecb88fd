package cs336.kernels.runtime;

import cs336.units.IntegerMath;
import java.util.Objects;

/**
 * The occupancy of a kernel: the number of its blocks that a multiprocessor holds at a time, and the resource that
 * limits it.
 *
 * <p>Source: CUDA C++ programming guide, table of technical specifications by compute capability.
 *
 * @param blocks resident blocks per multiprocessor
 * @param warps resident warps per multiprocessor
 * @param maxWarps largest number of warps that a multiprocessor holds
 * @param limit resource that runs out first
 */
public record Occupancy(int blocks, int warps, int maxWarps, Limit limit) {
    /** A limited resource of a multiprocessor. */
    public enum Limit {
        WARPS,
        BLOCKS,
        REGISTERS,
        SHARED_MEMORY,
        BARRIERS
    }

    private static final int WARP = 32;
    private static final int REGISTERS = 65_536;
    private static final int REGISTER_UNIT = 256; // allocation granularity per warp
    private static final int SHARED_UNIT = 128; // allocation granularity per block
    private static final int BARRIERS = 64; // not in the table; the limit that the driver applies on sm_90
    /** Bytes of shared memory that CUDA reserves per block. */
    public static final int SHARED_OF_SYSTEM = 1024;

    /** Warps, blocks and KiB of shared memory per multiprocessor. */
    private record MultiprocessorLimits(int warps, int blocks, int sharedKib) {
        static MultiprocessorLimits of(GpuArchitecture a) {
            if (a.major() == 8) {
                return a.minor() == 0
                        ? new MultiprocessorLimits(64, 32, 164)
                        : new MultiprocessorLimits(48, a.minor() == 9 ? 24 : 16, a.minor() == 7 ? 164 : 100);
            } else if (a.major() >= 9) {
                return a.major() == 12 ? new MultiprocessorLimits(48, 24, 100) : new MultiprocessorLimits(64, 32, 228);
            }
            throw new IllegalArgumentException("architecture must be sm_80 or newer, not " + a);
        }
    }

    /**
     * Returns the shared memory per multiprocessor, in bytes.
     *
     * @throws IllegalArgumentException if the architecture is below sm_80
     */
    public static int sharedBytes(GpuArchitecture architecture) {
        Objects.requireNonNull(architecture, "architecture must not be null");
        return MultiprocessorLimits.of(architecture).sharedKib * 1024;
    }

    /** Returns resident warps divided by the largest number of warps, from 0 to 1. */
    public double fraction() {
        return (double) warps / maxWarps;
    }

    /**
     * Returns the occupancy of a kernel that is launched with blocks of this size.
     *
     * @throws IllegalArgumentException if {@code blockThreads} is not 1 to 1024, or the architecture is below sm_80
     */
    static Occupancy of(GpuArchitecture architecture, KernelResources used, int blockThreads, int dynamicSharedBytes) {
        if (blockThreads < 1 || blockThreads > 1024) {
            throw new IllegalArgumentException("blockThreads must be 1 to 1024, not " + blockThreads);
        }
        MultiprocessorLimits limits = MultiprocessorLimits.of(architecture);
        int warps = IntegerMath.ceilDiv(blockThreads, WARP);
        int warpRegisters = Math.max(REGISTER_UNIT, IntegerMath.roundUp(used.registers() * WARP, REGISTER_UNIT));
        // Each of a multiprocessor's four partitions has a quarter of the registers.
        int byRegisters = REGISTERS / 4 / warpRegisters * 4 / warps;
        int shared = IntegerMath.roundUp(used.sharedBytes() + dynamicSharedBytes + SHARED_OF_SYSTEM, SHARED_UNIT);
        int byBarriers = BARRIERS / Math.max(1, used.barriers());
        int[] blocks = {limits.warps / warps, limits.blocks, byRegisters, limits.sharedKib * 1024 / shared, byBarriers};
        int scarcest = 0;
        for (int i = 1; i < blocks.length; i++) {
            if (blocks[i] < blocks[scarcest]) {
                scarcest = i;
            }
        }
        return new Occupancy(blocks[scarcest], blocks[scarcest] * warps, limits.warps, Limit.values()[scarcest]);
    }

    @Override
    public String toString() {
        return "%d blocks, %d of %d warps, limited by %s"
                .formatted(blocks, warps, maxWarps, limit.name().toLowerCase().replace('_', ' '));
    }
}
