package cs336.figures;

import cs336.bench.ArgumentCheck;
import cs336.units.IntegerMath;

/**
 * The tiles of the score matrix QKᵀ in a tiled attention: a row of tiles for each block of queries, a column for each
 * block of keys. With a causal mask, query i attends to the keys 0 … i, so a tile lies below the diagonal, on it or
 * above it.
 *
 * @param queries number of queries T, the rows of the matrix
 * @param keys number of keys S, the columns of the matrix
 * @param queryTile rows of a tile; the last tile may have fewer
 * @param keyTile columns of a tile; the last tile may have fewer
 * @param causal whether the mask is causal
 */
public record ScoreTiles(int queries, int keys, int queryTile, int keyTile, boolean causal) {
    /** The treatment of a tile. */
    public enum TileState {
        /** All scores are computed and none is masked. */
        WHOLE,
        /** All scores are computed; those above the diagonal are set to −∞. */
        MASKED,
        /** All scores are masked, so none is computed. */
        SKIPPED
    }

    /** @throws IllegalArgumentException if a size is below 1 */
    public ScoreTiles {
        ArgumentCheck.atLeast("queries", 1, queries);
        ArgumentCheck.atLeast("keys", 1, keys);
        ArgumentCheck.atLeast("queryTile", 1, queryTile);
        ArgumentCheck.atLeast("keyTile", 1, keyTile);
    }

    /** Returns the number of rows of tiles. */
    public int rows() {
        return IntegerMath.ceilDiv(queries, queryTile);
    }

    /** Returns the number of columns of tiles. */
    public int columns() {
        return IntegerMath.ceilDiv(keys, keyTile);
    }

    /** Returns whether the query attends to the key. */
    public boolean attends(int query, int key) {
        return !causal || key <= query;
    }

    /** Returns the treatment of the tile in this row and column of tiles. */
    public TileState state(int row, int column) {
        int firstQuery = row * queryTile;
        int lastQuery = Math.min(queries, firstQuery + queryTile) - 1;
        int firstKey = column * keyTile;
        int lastKey = Math.min(keys, firstKey + keyTile) - 1;
        if (!attends(lastQuery, firstKey)) {
            return TileState.SKIPPED;
        }
        return attends(firstQuery, lastKey) ? TileState.WHOLE : TileState.MASKED;
    }

    /** Returns the number of tiles with this treatment. */
    public long count(TileState state) {
        long count = 0;
        for (int row = 0; row < rows(); row++) {
            for (int column = 0; column < columns(); column++) {
                count += state(row, column) == state ? 1 : 0;
            }
        }
        return count;
    }
}
