package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class QuantityTest {
    private static String write(double value, String unit, String format) {
        return NumberFormat.parse(format).write(Quantity.of(value, unit));
    }

    @Test
    void aUnitInTheFormatConverts() {
        assertEquals("1.5\u00a0s", write(1500, "ms", "%.1f s"));
        assertEquals("3.00\u00a0GiB", write(3221225472.0, "B", "%.2f GiB"));
        assertEquals("1,024\u00a0GiB", write(1, "TiB", "%d GiB"));
        assertEquals("2\u00a0GB/s", write(2, "MB/ms", "%.0f GB/s"));
        assertEquals("12%", write(0.12, "", "%.0f%%"));
        assertEquals("1.25×", write(1.25, "", "%.2f×"));
        assertEquals("90\u00a0min", write(1.5, "h", "%d min"));
    }

    @Test
    void withoutAUnitNothingIsConverted() {
        assertEquals("15", write(15, "launches", "%.0f"));
        assertEquals("−2.0", write(-2, "%", "%.1f"));
    }

    @Test
    void numbersHaveSeparatorsWithAndWithoutTheFlag() {
        assertEquals("1,500", write(1500, "launches", "%.0f"));
        assertEquals("2,691\u00a0MB", write(2.691, "GB", "%.0f MB"));
        assertEquals("1,998,235,200", write(1998235200.0, "", "%,d"));
        assertEquals("1,998,235,200", write(1998235200.0, "", "%d"));
        assertEquals("+1,035.3\u00a0ms", write(1035.26, "ms", "%+.1f ms"));
        assertEquals("12,346", write(12345.6, "", "%.5g"));
        assertEquals("1.24e+03", write(1235, "", "%.2e"));
        assertEquals("1.24e-03", write(0.001235, "", "%.2e"));
    }

    @Test
    void timesSizesAndRatesAreNotWrittenWithoutAUnit() {
        for (String unit : new String[] {"ms", "bytes", "FLOP", "GB/s", "tokens/s"}) {
            var e = assertThrows(IllegalArgumentException.class, () -> write(2, unit, "%.1f"), unit);
            assertEquals(
                    "the number is in " + unit + "; the format must have a unit, as in \"%.1f " + unit + "\"",
                    e.getMessage());
        }
    }

    /** 1 s / (250 ms/step) is 4 steps, but 0.004 in its own unit. */
    @Test
    void aCountWithAFactorOfItsUnitIsNotWrittenWithoutAUnit() {
        Quantity steps = Quantity.of(1, "s").dividedBy(Quantity.of(250, "ms/step"));
        assertThrows(
                IllegalArgumentException.class, () -> NumberFormat.parse("%.1f").write(steps));
        assertEquals("4.0\u00a0step", NumberFormat.parse("%.1f step").write(steps));
    }

    @Test
    void significantDigitsAddNoDecimalsToAWholeNumber() {
        assertEquals("73", write(73, "", "%.3g"));
        assertEquals("337", write(337, "", "%.3g"));
        assertEquals("1.23e+07", write(12345678, "", "%.3g"));
        assertEquals("0.200", write(0.2, "", "%.3g"));
        assertEquals("73.0", write(73.04, "", "%.3g"));
        assertEquals("73.0", write(73, "", "%.1f"));
    }

    @Test
    void unitsOfDifferentDimensionsDoNotConvert() {
        var error = assertThrows(IllegalArgumentException.class, () -> write(1, "ms", "%.1f GiB"));
        assertEquals("cannot convert ms to GiB", error.getMessage());
        assertThrows(IllegalArgumentException.class, () -> write(1, "", "%.1f ms"));
        assertThrows(IllegalArgumentException.class, () -> write(1, "tokens", "%.1f steps"));
        assertThrows(IllegalArgumentException.class, () -> Quantity.of(1, "ms").plus(Quantity.of(1, "B")));
    }

    @Test
    void arithmeticKeepsTrackOfUnits() {
        Quantity ratio = Quantity.of(1, "s").dividedBy(Quantity.of(500, "ms"));
        assertEquals(Quantity.of(2), ratio);
        assertEquals(1.5, Quantity.of(1, "s").plus(Quantity.of(500, "ms")).value());
        Quantity rate = Quantity.of(4, "MB").dividedBy(Quantity.of(2, "ms"));
        assertEquals(2, rate.in(Unit.parse("GB/s")).value(), 1e-12);
        assertEquals(8, rate.times(Quantity.of(4, "ms")).in(Unit.parse("MB")).value(), 1e-9);
        assertThrows(IllegalArgumentException.class, () -> Quantity.of(1, "s").dividedBy(Quantity.of(0, "s")));
    }

    @Test
    void malformedFormatsAreRejected() {
        for (String format : List.of("", "ms", "%s", "%.1f ms or so", "%.1f %.1f", "about %.1f", "%.1")) {
            var error = assertThrows(IllegalArgumentException.class, () -> NumberFormat.parse(format));
            assertTrue(error.getMessage().contains("\"" + format + "\""), error.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> write(1.5, "", "%d"));
    }

    @Test
    void wholeNumbersAreWholeAfterAConversion() {
        assertEquals("57%", write(0.57, "", "%d%%"));
        assertEquals("1,005,000,000\u00a0B", write(1.005, "GB", "%d B"));
        assertThrows(IllegalArgumentException.class, () -> write(0.5700001, "", "%d%%"));
        assertThrows(IllegalArgumentException.class, () -> write(1e-20, "", "%d"));
        assertThrows(IllegalArgumentException.class, () -> write(1e12 + 0.5, "", "%d"));
    }

    /** The error about a missing unit suggests the symbol of a calculated unit. */
    @Test
    void theSymbolOfACalculatedUnitIsThatUnit() {
        var symbols = List.of("ms", "GB/s", "tokens/s", "1/s", "GB·ms", "FLOP/ms/GB", "%", "");
        for (String a : symbols) {
            for (String b : symbols) {
                for (Unit unit : List.of(
                        Unit.parse(a).times(Unit.parse(b)), Unit.parse(a).per(Unit.parse(b)))) {
                    Unit parsed = Unit.parse(unit.symbol());
                    assertEquals(unit.dimensions(), parsed.dimensions(), a + " and " + b + " as " + unit);
                    assertEquals(1, parsed.factor() / unit.factor(), 1e-12, a + " and " + b + " as " + unit);
                }
            }
        }
        assertEquals("GB", Unit.parse("GB/s").times(Unit.parse("s")).symbol());
        assertEquals("ms·GB/s", Unit.parse("ms").times(Unit.parse("GB/s")).symbol());
        assertEquals("s", Unit.parse("tokens").per(Unit.parse("tokens/s")).symbol());
        assertEquals("1/s", Unit.parse("").per(Unit.parse("s")).symbol());
    }
}
