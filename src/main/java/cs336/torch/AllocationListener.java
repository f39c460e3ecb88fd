package cs336.torch;

/**
 * A listener that receives each allocation and each release of libtorch's allocators. It is called on the thread that
 * allocates or frees, under the allocator's lock: it must be fast and must not allocate tensors.
 */
public interface AllocationListener {
    /**
     * Called when a block was allocated or freed.
     *
     * @param address the block's address
     * @param bytes the block's size, negative when it was freed
     * @param cuda whether the block is on a GPU
     * @param index the GPU's index, 0 for the CPU
     */
    void reported(long address, long bytes, boolean cuda, int index);
}
