package cs336.kernels.norms;

import cs336.kernels.norms.RmsNormTile.Pass;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;

/**
 * Which tile an RMSNorm kernel gets. A register holds four bytes, a thread has at most 128 of them at 512 threads a
 * multiprocessor and 64 at 1024: that bounds how much of a row one thread can take.
 */
public final class RmsNormTiles {
    private static final int BLOCK = 256;
    private static final int LEAST_FOR_ASYNCHRONOUS_COPY = 4; // bytes

    private RmsNormTiles() {}

    public static RmsNormTile forward(RowLayout layout) {
        int rowThreads = rowThreads(layout, 16, 1024);
        if (layout.accessBytes() == 16 && rowThreads > 256) {
            // Bytes under way keep memory busy, 64 a thread; large blocks would leave room for few of them.
            rowThreads = rowThreads(layout, 64 / layout.type().bytes(), 1024);
        }
        if (elements(layout, rowThreads)
                > 16 * (layout.accessBytes() < 16 ? 1 : 4 / layout.type().bytes())) {
            return wide(Pass.FORWARD_WIDE, 1024);
        }
        int block = Math.max(BLOCK, rowThreads);
        boolean keepWeight = false;
        boolean persistent = false;
        return new RmsNormTile(Pass.FORWARD, rowThreads, block / rowThreads, 1024 / block, 1, keepWeight, persistent);
    }

    public static RmsNormTile backward(RowLayout layout) {
        int rowThreads = rowThreads(layout, 8, 512);
        int elements = elements(layout, rowThreads);
        if (elements > 16) return wide(Pass.BACKWARD_WIDE, 512);
        int block = Math.max(BLOCK, rowThreads);
        // Two blocks of 512 leave 64 registers a thread: enough for whole accesses in full rows and a narrow weight.
        boolean lean = layout.accessBytes() == 16
                && layout.width() % (rowThreads * layout.vector()) == 0
                && layout.gainType() == layout.type();
        int smBlocks = elements > 8 ? 512 / block : block == BLOCK ? (lean ? 3 : 2) : (lean ? 2 : 1);
        boolean keepWeight = elements * layout.gainType().bytes() <= 64;
        int stages = layout.type() == DType.FLOAT32 || layout.accessBytes() < LEAST_FOR_ASYNCHRONOUS_COPY ? 1 : 2;
        return new RmsNormTile(Pass.BACKWARD, rowThreads, block / rowThreads, smBlocks, stages, keepWeight, true);
    }

    private static RmsNormTile wide(Pass pass, int threads) {
        return new RmsNormTile(pass, threads, 1, 1024 / threads, 1, false, true);
    }

    /** The fewest threads, as a power of two of whole warps, that leave each no more than so many elements. */
    private static int rowThreads(RowLayout layout, int elements, int most) {
        int threads = 32;
        while (threads < most && elements(layout, threads) > elements) threads *= 2;
        return threads;
    }

    /** Elements of a row that one of its threads holds. */
    private static int elements(RowLayout layout, int rowThreads) {
        return (layout.accesses() + rowThreads - 1) / rowThreads * layout.vector();
    }
}
