package cs336.compile.fuse;

import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import java.util.List;

/** Writes the CUDA source of a fused kernel: a {@link RowWiseKernel}, or {@link ColumnSumKernels}. */
final class KernelEmitter {
    /**
     * The generated kernel.
     *
     * @param source CUDA C++
     * @param blockThreads threads per block
     * @param gridX blocks in x
     * @param gridY blocks in y
     * @param sharedBytes dynamic shared memory per block
     * @param staticBytes static shared memory per block for the sums of its rows
     * @param parts the number of partial sums per column
     * @param partials dtypes of the tensors [parts, columns] of partial sums, which the second kernel adds up
     */
    record EmittedKernel(
            String source,
            int blockThreads,
            long gridX,
            int gridY,
            int sharedBytes,
            int staticBytes,
            int parts,
            List<DType> partials) {
        boolean fits(int mostSharedBytes) {
            return sharedBytes + staticBytes <= mostSharedBytes;
        }
    }

    static final int ACCESS_BYTES = 16;

    private KernelEmitter() {}

    /**
     * Returns the kernel that computes these outputs of a group.
     *
     * @param mostSharedBytes the shared memory that a block may use
     */
    static EmittedKernel of(FusionGroup group, List<ProgramValue> outputs, int mostSharedBytes) {
        var code = new KernelCode(group, outputs);
        KernelTile tile = KernelTile.of(group, code.loads().vector(), canReload(code));
        EmittedKernel kernel = emit(code, tile);
        return kernel.fits(mostSharedBytes) ? kernel : emit(new KernelCode(group, outputs), tile.withoutPrefetch());
    }

    /** Returns the same kernel with each tile that is plausible for it, to be compared on a GPU. */
    static List<EmittedKernel> candidates(FusionGroup group, List<ProgramValue> outputs, int mostSharedBytes) {
        var code = new KernelCode(group, outputs);
        return KernelTile.candidates(group, code.loads().vector(), canReload(code)).stream()
                .map(tile -> emit(new KernelCode(group, outputs), tile))
                .filter(kernel -> kernel.fits(mostSharedBytes))
                .toList();
    }

    private static boolean canReload(KernelCode code) {
        return !RowLoads.of(code).twice().isEmpty();
    }

    private static EmittedKernel emit(KernelCode code, KernelTile tile) {
        List<DType> partials =
                code.columnSums().stream().map(PointwiseOperator::computeType).toList();
        if (code.group().isPerColumn()) {
            long blocks = ColumnSumKernels.emit(code, tile);
            return new EmittedKernel(
                    code.toString(), KernelTile.MAX_BLOCK, blocks, tile.parts(), 0, 0, tile.parts(), partials);
        }
        var kernel = new RowWiseKernel(code, tile);
        kernel.emit();
        return new EmittedKernel(
                code.toString(),
                kernel.blockThreads(),
                kernel.blocks(),
                1,
                kernel.sharedBytes(),
                kernel.sumBytes(),
                tile.parts(),
                partials);
    }
}
