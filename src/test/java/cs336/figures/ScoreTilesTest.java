package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.figures.ScoreTiles.TileState;
import org.junit.jupiter.api.Test;

class ScoreTilesTest {
    @Test
    void aTileIsTreatedAsItsScores() {
        int[][] sizes = {{24, 24, 4, 4}, {10, 7, 3, 2}, {7, 10, 4, 4}, {5, 5, 1, 1}, {6, 9, 8, 3}, {1, 20, 4, 4}};
        for (int[] size : sizes) {
            for (boolean causal : new boolean[] {false, true}) {
                var tiles = new ScoreTiles(size[0], size[1], size[2], size[3], causal);
                for (int row = 0; row < tiles.rows(); row++) {
                    for (int column = 0; column < tiles.columns(); column++) {
                        assertEquals(
                                byScores(tiles, row, column),
                                tiles.state(row, column),
                                tiles + " " + row + " " + column);
                    }
                }
            }
        }
    }

    private static TileState byScores(ScoreTiles tiles, int row, int column) {
        int attended = 0;
        int all = 0;
        for (int i = row * tiles.queryTile(); i < Math.min(tiles.queries(), (row + 1) * tiles.queryTile()); i++) {
            for (int j = column * tiles.keyTile(); j < Math.min(tiles.keys(), (column + 1) * tiles.keyTile()); j++) {
                all++;
                attended += tiles.causal() && j > i ? 0 : 1;
            }
        }
        return attended == 0 ? TileState.SKIPPED : attended == all ? TileState.WHOLE : TileState.MASKED;
    }

    @Test
    void aCausalMaskSkipsHalfAndMasksTheDiagonal() {
        var tiles = new ScoreTiles(1024, 1024, 64, 64, true);
        assertEquals(16 * 15 / 2, tiles.count(TileState.WHOLE));
        assertEquals(16, tiles.count(TileState.MASKED));
        assertEquals(16 * 15 / 2, tiles.count(TileState.SKIPPED));
        assertEquals(256, new ScoreTiles(1024, 1024, 64, 64, false).count(TileState.WHOLE));
    }

    @Test
    void tileSizesBelowOneAreRejected() {
        assertEquals(
                "queryTile must be at least 1, not 0",
                assertThrows(IllegalArgumentException.class, () -> new ScoreTiles(4, 4, 0, 2, true))
                        .getMessage());
    }
}
