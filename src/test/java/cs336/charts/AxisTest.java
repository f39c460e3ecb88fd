package cs336.charts;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class AxisTest {
    @Test
    void aLogarithmicRangeEndsAtOneTwoOrFive() {
        AxisRange range = AxisRange.of(new double[] {3, 170}, true, false);
        assertEquals(2, range.min(), 0.1);
        assertEquals(200, range.max(), 5);
        assertTrue(range.min() < 2 && range.max() > 200, "ticks at the ends are inside the range");
        assertEquals("5", range.labels().apply(5.0));
        assertEquals("", range.labels().apply(30.0));
    }

    @Test
    void aLongLogarithmicRangeIsLabelledAtPowersOfTen() {
        AxisRange range = AxisRange.of(new double[] {0.5, 2000}, true, false);
        assertEquals("", range.labels().apply(5.0));
        assertEquals("1,000", range.labels().apply(1000.0));
        assertEquals("0.1", range.labels().apply(0.1));
    }

    @Test
    void barsStartAtZeroAndLabelsHaveTheSameNumberOfDecimals() {
        AxisRange range = AxisRange.of(new double[] {0.8, 1.1}, false, true);
        assertEquals(0, range.min(), 1e-5);
        assertEquals("1.0", range.labels().apply(1.0));
        AxisRange negative = AxisRange.of(new double[] {-3, 2}, false, true);
        assertTrue(negative.min() <= -3 && negative.max() >= 2);
    }

    @Test
    void aLinearRangeContainsItsValuesAndCrossesZeroOnlyIfTheyDo() {
        AxisRange above = AxisRange.of(new double[] {2, 400}, false, false);
        assertEquals(0, above.min(), 1e-3);
        AxisRange below = AxisRange.of(new double[] {-400, -2}, false, false);
        assertEquals(0, below.max(), 1e-3);
        AxisRange far = AxisRange.of(new double[] {40, 43}, false, false);
        assertTrue(far.min() > 35 && far.min() < 40 && far.max() > 43, far.toString());
    }

    @Test
    void ticksAreRoundNumbersOfTheSpacing() {
        assertEquals(List.of(0., 2., 4., 6., 8.), scale(Spacing.LINEAR, 0, 9).ticks(6));
        assertEquals(
                List.of(128., 256., 512., 1024.), scale(Spacing.LOG2, 128, 1024).ticks(8));
        assertEquals(
                List.of(128., 512., 2048., 8192.),
                scale(Spacing.LOG2, 128, 8192).ticks(4));
        assertEquals(List.of(0., 5., 10.), scale(Spacing.LINEAR, 0.1, 10).ticks(3));
        assertEquals(List.of(1., 10., 100.), scale(Spacing.LOG10, 1, 100).ticks(8));
        assertEquals(List.of(5., 10., 20.), scale(Spacing.LOG10, 4, 30).ticks(8));
        // No power lies within these.
        assertEquals(
                List.of(300., 350., 400., 450.), scale(Spacing.LOG2, 300, 450).ticks(4));
        assertEquals(
                List.of(300., 350., 400., 450.), scale(Spacing.LOG10, 300, 450).ticks(4));
        assertEquals(
                "0", ChartStyle.number(scale(Spacing.LINEAR, -4, 4).ticks(5).get(2)));
    }

    private static HorizontalScale scale(Spacing spacing, double min, double max) {
        return new HorizontalScale(spacing, min, max);
    }

    /** A step, or the end of the axis, is lost in the rounding of such numbers. */
    @Test
    void hugeNumbersHaveFewTicks() {
        double most = Double.MAX_VALUE;
        for (double[] values :
                new double[][] {{0, most}, {-most, most}, {1e308, 1e308}, {1, 1 / 0.0}, {1e17, 1e17 + 16}}) {
            for (Spacing spacing : Spacing.values()) {
                HorizontalScale scale = HorizontalScale.of(values, spacing);
                List<Double> ticks = assertTimeoutPreemptively(Duration.ofSeconds(20), () -> scale.ticks(5));
                assertTrue(ticks.size() <= 11, scale + ": " + ticks.size());
            }
        }
    }

    @Test
    void overlappingLabelsAreSpreadAroundTheirMean() {
        assertArrayEquals(new double[] {0, 50}, LinePanel.spread(new double[] {0, 50}, 10));
        assertArrayEquals(new double[] {0, 10, 20}, LinePanel.spread(new double[] {10, 10, 10}, 10));
        assertArrayEquals(new double[] {-5, 5, 30}, LinePanel.spread(new double[] {0, 0, 30}, 10));
        double[] chained = LinePanel.spread(new double[] {0, 12, 13}, 10);
        assertTrue(chained[1] - chained[0] > 9.999 && chained[2] - chained[1] > 9.999);
    }

    @Test
    void legendsWrapIntoRows() {
        List<String> names = List.of("one", "two", "three");
        int one = new Legend("", names, 2000).height();
        int three = new Legend("", names, 1).height();
        assertTrue(three > one + 2 * 15 * ChartStyle.UNITS, one + " " + three);
        assertEquals(0, Legend.NONE.height());
    }

    @Test
    void tickLabelsAreShort() {
        assertEquals("65,536", ChartStyle.number(65536));
        assertEquals("1,000", ChartStyle.number(1000));
        assertEquals("1,234.5", ChartStyle.number(1234.5));
        assertEquals("0.05", ChartStyle.number(0.05));
        assertEquals("−2.5", ChartStyle.number(-2.5));
        assertEquals("1e9", ChartStyle.number(1e9));
        assertEquals("0", ChartStyle.number(0));
    }
}
