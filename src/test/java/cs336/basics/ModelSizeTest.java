package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ModelSizeTest {
    @ParameterizedTest
    @CsvSource({
        "small, 2025, 128625408",
        "medium, 2025, 423183360",
        "large, 2025, 969411840",
        "xl, 2025, 1998235200",
        "2.7B, 2025, 3406809600",
        "small, 2024, 92732160",
        "medium, 2024, 312411136",
        "large, 2024, 720846080",
        "xl, 2024, 1490920000",
        "2.7B, 2024, 2542676480"
    })
    void parameterCountsMatchTheCourse(String size, int year, long parameters) {
        var config = ModelSize.parse(size).config(ModelEdition.ofYear(year), 128);
        assertEquals(parameters, config.parameterCount());
    }

    @Test
    void unknownSizeIsRefusedAndKnownSizesAreListed() {
        var error = assertThrows(IllegalArgumentException.class, () -> ModelSize.parse("huge"));
        assertEquals(
                "size 'huge' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
                error.getMessage());
    }

    @Test
    void unknownYearIsRefusedAndKnownYearsAreListed() {
        var error = assertThrows(IllegalArgumentException.class, () -> ModelEdition.ofYear(2023));
        assertTrue(error.getMessage().endsWith("known: 2024, 2025"), error.getMessage());
    }
}
