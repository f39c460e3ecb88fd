package cs336.kernels.runtime;

import java.util.Objects;

/**
 * The resource usage of a kernel, as ptxas reports it.
 *
 * @param registers registers per thread
 * @param sharedBytes static shared memory per block, in bytes
 * @param barriers named barriers per block
 * @param stackBytes bytes of local memory per thread, which is in global memory
 * @param spillStores bytes per thread that are spilled from registers to local memory
 * @param spillLoads bytes per thread that are loaded back
 */
public record KernelResources(
        int registers, int sharedBytes, int barriers, int stackBytes, int spillStores, int spillLoads) {
    /** Returns the same resources with the dynamic shared memory of a launch added to the static shared memory. */
    public KernelResources withDynamicShared(int bytes) {
        return new KernelResources(registers, sharedBytes + bytes, barriers, stackBytes, spillStores, spillLoads);
    }

    /**
     * Returns the occupancy of this kernel for a block size and dynamic shared memory per block in bytes.
     *
     * @throws IllegalArgumentException if {@code blockThreads} is not 1 to 1024, or the architecture is below sm_80
     */
    public Occupancy occupancy(GpuArchitecture architecture, int blockThreads, int dynamicSharedBytes) {
        Objects.requireNonNull(architecture, "architecture must not be null");
        return Occupancy.of(architecture, this, blockThreads, dynamicSharedBytes);
    }
}
