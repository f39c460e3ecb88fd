package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

class AlignedTextTest {
    @ParameterizedTest
    @CsvSource({
        "0, 0",
        "0.00123456, 0.001235",
        "-12.345678, -12.35",
        "999.94, 999.9",
        "999.96, '1,000'",
        "1000, '1,000'",
        "1234567.8, '1,234,568'",
        "0.000001, 0.000001000",
        "1.4012e-45, 1.401e-45",
        "-5.96e-8, -5.960e-08",
        "999999999999999, '999,999,999,999,999'",
        "3.4028e38, 3.403e+38"
    })
    void numbersHaveFourSignificantDigits(double number, String text) {
        assertEquals(text, AlignedText.number(number));
    }

    @Test
    void wholeNumbersHaveSeparatorsAndYearsHaveNone() {
        Table table = Table.create(
                IntColumn.create("year", new int[] {2025}),
                LongColumn.create("bytes", new long[] {137_438_953_471L}),
                StringColumn.create("commit", List.of("1234567")));
        assertEquals("""
                year            bytes  commit
                2025  137,438,953,471  1234567""", AlignedText.of(table));
    }
}
