package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AlignedTextTest {
    @ParameterizedTest
    @CsvSource({
        "0, 0",
        "0.00123456, 0.001235",
        "-12.345678, -12.35",
        "999.94, 999.9",
        "999.96, 1000",
        "1000, 1000",
        "1234567.8, 1234568"
    })
    void numbersHaveFourSignificantDigits(double number, String text) {
        assertEquals(text, AlignedText.number(number));
    }
}
