package cs336.kernels.runtime;

/**
 * What a kernel uses of a multiprocessor, as ptxas counts it.
 *
 * @param registers a thread
 * @param sharedBytes of static shared memory a block
 * @param barriers a block
 * @param stackBytes of local memory a thread, which lies in the card's memory
 * @param spillStores bytes a thread writes to local memory because registers ran out
 * @param spillLoads bytes a thread reads back
 */
public record KernelResources(
        int registers, int sharedBytes, int barriers, int stackBytes, int spillStores, int spillLoads) {
    /** How many blocks of this kernel run on a multiprocessor at a time. */
    public Occupancy occupancy(GpuArchitecture architecture, int blockThreads, int dynamicSharedBytes) {
        return Occupancy.of(architecture, this, blockThreads, dynamicSharedBytes);
    }
}
