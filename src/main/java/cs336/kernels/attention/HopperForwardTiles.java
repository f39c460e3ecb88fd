package cs336.kernels.attention;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Which tile Hopper's forward kernel gets. Of those that fit the registers and shared memory of a multiprocessor, the
 * one whose launch should end first: wide tiles read keys seldom and compute fastest once they are many enough; narrow
 * tiles with split keys fill the card when they are few, and with clusters when they are very few. How long a tile
 * takes was measured on an H200, before warpgroups skipped blocks that they do not see and multiplied the rest of P
 * (versions 8 and 9 in {@code kernels/README.md}).
 */
public final class HopperForwardTiles {
    /**
     * A tile and its time.
     *
     * @param start microseconds before and after its blocks of keys
     * @param step microseconds a block of keys, which the warpgroups and blocks that share it work on together
     */
    private record Choice(HopperForwardTile tile, double start, double step) {
        /** Until the last cluster is done. Which tiles each has is said in the kernel. */
        double time(int heads, int queries, int keys, boolean causal, int multiprocessors) {
            int tiles = tile.tiles(heads, queries), atOnce = tile.clusters(multiprocessors);
            int rounds = (tiles + atOnce - 1) / atOnce;
            if (!causal) return rounds * (start + step * blocks(keys));
            if (rounds == 1) return load(0, 1, tiles, atOnce, heads, queries, keys);
            if (rounds > MANY) { // hardly any cluster has more to do than others
                double seen = queries <= keys ? queries / 2.0 : keys * (1 - keys / 2.0 / queries);
                return (start + step * blocks(seen + tile.queries() / 2.0)) * tiles / atOnce;
            }
            int left =
                    tiles - (rounds - 1) * atOnce; // in the last round, which goes on from where the one before ended
            int lastOfThem = rounds % 2 == 1 ? left - 1 : atOnce - left;
            double first = load(0, rounds, tiles, atOnce, heads, queries, keys);
            double last = load(atOnce - 1, rounds, tiles, atOnce, heads, queries, keys);
            return Math.max(Math.max(first, last), load(lastOfThem, rounds, tiles, atOnce, heads, queries, keys));
        }

        /** Of one cluster: its tiles, with a mask. */
        private double load(int cluster, int rounds, int tiles, int atOnce, int heads, int queries, int keys) {
            int groups = (queries + HopperForwardTile.BOX_ROWS - 1) / HopperForwardTile.BOX_ROWS;
            double sum = 0;
            for (int round = 0; round < rounds; round++) {
                int number = round * atOnce + (round % 2 == 0 ? cluster : atOnce - 1 - cluster);
                int end = groups * HopperForwardTile.BOX_ROWS - number / heads * tile.queries(); // of its queries
                if (number < tiles) sum += start + step * blocks(Math.min(keys, end));
            }
            return sum;
        }

        private double blocks(double keys) {
            return Math.ceil(keys / tile.keys());
        }
    }

    private static final int MANY = 8;

    /** All choices, by columns of the kernel. */
    private static final Map<Integer, List<Choice>> CHOICES = Stream.of(
                    own(16, 3, 128, 4, 2.5, 0.98),
                    own(16, 2, 128, 4, 2.0, 0.83),
                    split(16, 3, 1, 3, 1.8, 0.185),
                    split(16, 3, 2, 3, 2.8, 0.092),
                    split(16, 3, 4, 3, 3.4, 0.045),
                    split(16, 3, 8, 3, 4.6, 0.027),
                    own(32, 3, 128, 4, 2.7, 1.06),
                    own(32, 2, 128, 4, 2.3, 0.89),
                    split(32, 3, 1, 3, 1.9, 0.197),
                    split(32, 3, 2, 3, 3.0, 0.100),
                    split(32, 3, 4, 3, 3.7, 0.052),
                    split(32, 3, 8, 3, 5.4, 0.028),
                    own(64, 3, 128, 4, 2.5, 1.25),
                    own(64, 2, 128, 4, 2.3, 0.99),
                    split(64, 3, 1, 3, 1.9, 0.224),
                    split(64, 3, 2, 3, 3.1, 0.117),
                    split(64, 3, 4, 3, 4.6, 0.066),
                    split(64, 3, 8, 3, 7.1, 0.034),
                    own(128, 3, 64, 4, 3.3, 0.875),
                    own(128, 2, 128, 2, 3.0, 1.21),
                    split(128, 2, 1, 2, 2.4, 0.341),
                    split(128, 2, 2, 2, 3.9, 0.174),
                    split(128, 2, 4, 2, 6.0, 0.090),
                    split(128, 2, 8, 2, 10.3, 0.049))
            .collect(Collectors.groupingBy(choice -> choice.tile.dimension()));

    private HopperForwardTiles() {}

    /** Each consumer has queries of its own. */
    private static Choice own(int dimension, int consumers, int keys, int stages, double start, double step) {
        return new Choice(new HopperForwardTile(dimension, consumers, false, 1, keys, stages), start, step);
    }

    /** The consumers of a cluster share the keys: 64 a block. */
    private static Choice split(int dimension, int consumers, int cluster, int stages, double start, double step) {
        return new Choice(new HopperForwardTile(dimension, consumers, true, cluster, 64, stages), start, step);
    }

    /**
     * The tile for attention of this size.
     *
     * @param d columns of the queries, at most 128
     * @param heads of the whole batch
     * @param multiprocessors of the card
     */
    public static HopperForwardTile of(int d, int heads, int queries, int keys, boolean causal, int multiprocessors) {
        Choice best = null;
        double least = Double.POSITIVE_INFINITY;
        for (Choice choice : CHOICES.get(HeadWidths.of(d))) {
            double time = choice.time(heads, queries, keys, causal, multiprocessors);
            if (time < least) {
                best = choice;
                least = time;
            }
        }
        return best.tile();
    }

    /** All tiles that {@link #of} may return. */
    public static List<HopperForwardTile> all() {
        return HeadWidths.ALL.stream()
                .flatMap(dimension -> CHOICES.get(dimension).stream())
                .map(Choice::tile)
                .toList();
    }
}
