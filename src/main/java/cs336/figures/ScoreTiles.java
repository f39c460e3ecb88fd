package cs336.figures;

import cs336.bench.ArgumentCheck;

/**
 * How a tiled attention cuts the matrix of scores QKᵀ: rows of tiles for queries, columns for keys. With a causal mask,
 * query i sees the keys 0 … i, so that a tile lies before the diagonal, on it, or after it.
 *
 * @param queries T, rows of the matrix
 * @param keys S, columns of the matrix
 * @param queryTile rows of a tile; the last may have fewer
 * @param keyTile columns of a tile; the last may have fewer
 * @param causal whether there is a mask
 */
public record ScoreTiles(int queries, int keys, int queryTile, int keyTile, boolean causal) {
    /** What becomes of a tile. */
    public enum Fate {
        /** All its scores are computed and all count. */
        WHOLE,
        /** All its scores are computed; those after the diagonal are set to −∞. */
        MASKED,
        /** No score of it counts, so none is computed. */
        SKIPPED
    }

    /** @throws IllegalArgumentException if a size is below 1 */
    public ScoreTiles {
        ArgumentCheck.atLeast("queries", 1, queries);
        ArgumentCheck.atLeast("keys", 1, keys);
        ArgumentCheck.atLeast("queryTile", 1, queryTile);
        ArgumentCheck.atLeast("keyTile", 1, keyTile);
    }

    /** Tiles above each other. */
    public int rows() {
        return (queries + queryTile - 1) / queryTile;
    }

    /** Tiles beside each other. */
    public int columns() {
        return (keys + keyTile - 1) / keyTile;
    }

    /** Whether a score counts. */
    public boolean counts(int query, int key) {
        return !causal || key <= query;
    }

    /** What becomes of the tile in this row and column of tiles. */
    public Fate fate(int row, int column) {
        int firstQuery = row * queryTile;
        int lastQuery = Math.min(queries, firstQuery + queryTile) - 1;
        int firstKey = column * keyTile;
        int lastKey = Math.min(keys, firstKey + keyTile) - 1;
        if (!counts(lastQuery, firstKey)) {
            return Fate.SKIPPED;
        }
        return counts(firstQuery, lastKey) ? Fate.WHOLE : Fate.MASKED;
    }

    /** How many tiles share a fate. */
    public long count(Fate fate) {
        long count = 0;
        for (int row = 0; row < rows(); row++) {
            for (int column = 0; column < columns(); column++) {
                count += fate(row, column) == fate ? 1 : 0;
            }
        }
        return count;
    }
}
