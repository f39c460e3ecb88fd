package cs336.units;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SeparatorsTest {
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "context | 999 | 999",
                "context | 1024 | 1,024",
                "parameters | -1998235200 | -1,998,235,200",
                "input | 8192 tokens | 8,192 tokens",
                "year | 2025 | 2025",
                "year of the course | 2025 | 2025",
                "yearly cost | 2025 | 2,025",
                "size | 2.7B | 2.7B",
                "commit | 0ff1234567 | 0ff1234567",
                "bucket (MB) | 0.512 | 0.512",
                "file | 12345678901234567890 | 12345678901234567890",
            })
    void wholeNumbersHaveACommaBetweenGroupsOfThreeDigitsAndYearsHaveNone(String name, String value, String shown) {
        assertEquals(shown, Separators.of(name, value));
    }

    @Test
    void amountsHaveSeparators() {
        assertEquals("2.1 MB (2.0 MiB)", new Bytes(2_097_152).toString());
        assertEquals(new Bytes(1_500), Bytes.parse(new Bytes(1_500).toString()));
        assertThrows(ArithmeticException.class, () -> new Bytes(1_000).times(Double.NaN));
        assertThrows(ArithmeticException.class, () -> new Bytes(Long.MAX_VALUE).times(2.0));
        assertEquals("1,600.0 GB (1,490.1 GiB)", new Bytes(1_600_000_000_000L).toString());
        assertEquals("4,800.0 GB/s", Bandwidth.gb(4800).toString());
        assertEquals("86,400.000 s", new Seconds(86_400).toString());
        assertEquals("8,192 tokens", new Tokens(8192).toString());
        assertEquals("1,979 TFLOP/s", new FlopRate(1979e12).toString());
    }
}
