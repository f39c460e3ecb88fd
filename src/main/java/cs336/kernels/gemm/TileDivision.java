package cs336.kernels.gemm;

import cs336.kernels.runtime.GridDim;

/**
 * The division of a result's tiles among clusters. The first tiles are computed by one cluster each. The last tiles may
 * be too few for all clusters; then several clusters compute a part of the depth of each of them (split-K).
 *
 * @param wholeTiles number of tiles that one cluster computes
 * @param splitTiles number of the other tiles, which come last
 * @param parts parts of each of the split tiles; at least 1
 */
record TileDivision(long wholeTiles, long splitTiles, int parts) {
    /** Returns the division in which no tile is split. */
    static TileDivision whole(long tiles) {
        return new TileDivision(tiles, 0, 1);
    }

    /** Returns the number of parts of all split tiles. */
    long allParts() {
        return splitTiles * parts;
    }

    /** Returns the grid of a launch: at most one block per multiprocessor. */
    GridDim grid(long clusters) {
        return new GridDim(Math.toIntExact(Math.min(wholeTiles + allParts(), clusters) * LinearProblem.CLUSTER));
    }
}
