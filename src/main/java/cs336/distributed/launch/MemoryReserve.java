package cs336.distributed.launch;

/** Memory of the Java heap that is kept free, so that a rank can still report that the heap is full. */
final class MemoryReserve {
    private static final int BYTES = 1 << 21;

    @SuppressWarnings("unused") // only its size matters
    private static volatile byte[] reserve;

    private MemoryReserve() {}

    /** Reserves the memory. */
    static void hold() {
        reserve = new byte[BYTES];
    }

    /** Lets the report use the memory. */
    static void release() {
        reserve = null;
    }
}
