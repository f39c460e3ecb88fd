package cs336.kernels.gemm;

import cs336.kernels.runtime.GridDim;
import cs336.units.IntegerMath;
import org.bytedeco.pytorch.Tensor;

/**
 * The matrix multiplications X · Wᵢᵀ of linear layers with a common input. In the kernels of this package, a cluster of
 * two blocks computes one tile of the result at a time, and each block half of its rows.
 *
 * @param rows rows of X
 * @param columns rows of each Wᵢ
 * @param depth columns of X
 * @param weights number of Wᵢ
 */
public record LinearProblem(long rows, long columns, long depth, int weights) {
    /** The largest number of weights that the kernels support. */
    public static final int MOST_WEIGHTS = 3;

    static final int CLUSTER = 2; // blocks

    static LinearProblem of(Tensor x, Tensor[] weights) {
        return new LinearProblem(x.size(0), weights[0].size(0), x.size(1), weights.length);
    }

    /** Returns the number of columns of the result, in which the results are side by side. */
    long allColumns() {
        return columns * weights;
    }

    /** Returns the number of clusters that run at the same time. */
    static int clusters(int multiprocessors) {
        return multiprocessors / CLUSTER;
    }

    boolean isEmpty() {
        return rows == 0 || columns == 0 || depth == 0;
    }

    long tiles(long tileRows, long tileColumns) {
        return IntegerMath.ceilDiv(rows, tileRows) * IntegerMath.ceilDiv(allColumns(), tileColumns);
    }

    /** Returns the largest number of tiles that a cluster computes. */
    long waves(long tileRows, long tileColumns, int multiprocessors) {
        return IntegerMath.ceilDiv(tiles(tileRows, tileColumns), clusters(multiprocessors));
    }

    /** Returns the grid of a launch: at most one block per multiprocessor. */
    GridDim grid(long tileRows, long tileColumns, int multiprocessors) {
        return TileDivision.whole(tiles(tileRows, tileColumns)).grid(clusters(multiprocessors));
    }
}
