package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.writeup.Writeup;
import cs336.writeup.WriteupException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ExtremeTest {
    private static final String ALL = "[size=small, xl, context=512, 1024]";

    @TempDir
    private Path folder;

    private MeasurementQuery numbers;

    /**
     * The largest time is that of xl at 1,024, the largest ratio that of small at 1,024, the smallest that of xl at
     * 512.
     */
    @BeforeEach
    void measure() throws IOException {
        MadeUpMeasurements.project(folder, "");
        Files.writeString(folder.resolve("data/measurements/pretend/pairs.csv"), """
                size,context,program,unit,mean,median,status
                small,512,ours,ms,2,20,ok
                small,512,peer,ms,4,40,ok
                small,1024,ours,ms,9,90,ok
                small,1024,peer,ms,3,30,ok
                xl,512,ours,s,0.01,0.1,ok
                xl,512,peer,ms,100,50,ok
                xl,1024,ours,ms,100,1000,ok
                xl,1024,peer,ms,50,500,ok
                huge,512,ours,ms,7,70,ok
                huge,512,peer,ms,,,oom
                size,512,ours,B,5,5,ok
                """);
        numbers = MeasurementQuery.of(folder.resolve("data/measurements/pretend"));
        numbers.define("ours", "pairs[program=ours]");
        numbers.define("peer", "pairs[program=peer]");
    }

    private String failure(String reference) {
        return assertThrows(IllegalArgumentException.class, () -> numbers.text(reference))
                .getMessage();
    }

    @Test
    void anExtremeIsOverAllCombinations() {
        String times = ALL + "(ours[size={size}, context={context}])";
        assertEquals("100.0\u00a0ms", numbers.text("max" + times + " : %.1f ms"));
        assertEquals("2.0\u00a0ms", numbers.text("min" + times + " : %.1f ms"));
        assertEquals(
                "90\u00a0ms",
                numbers.text("max[context=512, 1024](ours[size=small, context={context}].median) : %.0f ms"));
    }

    @Test
    void anExtremeIsOfAWholeExpression() {
        String ratio = "ours[size={size}, context={context}] / peer[size={size}, context={context}]";
        assertEquals("3.00×", numbers.text("max" + ALL + "(" + ratio + ") : %.2f×"));
        assertEquals("0.10×", numbers.text("min" + ALL + "(" + ratio + ") : %.2f×"));
        assertEquals("200%", numbers.text("max" + ALL + "((" + ratio + ") - 1) : %.0f%%"));
        assertEquals("30", numbers.text("max" + ALL + "(" + ratio + ") / min" + ALL + "(" + ratio + ") : %.0f"));
        assertEquals("201", numbers.text("2 * (100 * max" + ALL + "(" + ratio + ") - 200) + 1 : %.0f"));
    }

    @Test
    void valuesWithDifferentUnitsAreCompared() {
        assertEquals("10\u00a0ms", numbers.text("max[size=small, xl](ours[size={size}, context=512]) : %.0f ms"));
        assertEquals("2\u00a0ms", numbers.text("min[size=xl, small](ours[size={size}, context=512]) : %.0f ms"));
        assertEquals(
                "in the case size=small: cannot convert B to ms",
                failure("max[size=size, small](ours[size={size}, context=512]) : %.0f B"));
    }

    @Test
    void aPlaceholderMayBeAnyPartOfTheExpression() {
        assertEquals(
                "4\u00a0ms", numbers.text("max[program=ours, peer]({program}[size=small, context=512]) : %.0f ms"));
        assertEquals(
                "40\u00a0ms",
                numbers.text("max[column=mean, median](peer[size=small, context=512].{column}) : %.0f ms"));
        assertEquals("6", numbers.text("min[a=2, 3]({a} * max[b=1, 3]({a} - {a} + {b})) : %.0f"));
    }

    @Test
    void aDifferenceIsLargestByItsAbsoluteValue() {
        String difference = "ours[size={size}, context=512] - peer[size={size}, context=512]";
        assertEquals("−90\u00a0ms", numbers.text("min[size=small, xl](" + difference + ") : %.0f ms"));
        assertEquals("−2\u00a0ms (small)", numbers.text("max[size=small, xl](" + difference + ") : %.0f ms ({size})"));
        assertEquals(
                "90\u00a0ms (xl)", numbers.text("max[size=small, xl](abs(" + difference + ")) : %.0f ms ({size})"));
        assertEquals("5", numbers.text("2 + abs(3) : %d"));
        assertTrue(failure("abs 3 : %d").startsWith("'(' is missing"));
        assertTrue(failure("abs(3 : %d").startsWith("')' is missing"));
    }

    @Test
    void aSemicolonAddsCases() {
        String ours = "(ours[size={size}, context={context}])";
        assertEquals(
                "9\u00a0ms",
                numbers.text("max[size=small, context=512, 1024; size=huge, context=512]" + ours + " : %.0f ms"));
        assertEquals(
                "7\u00a0ms",
                numbers.text("max[size=small, context=512; size=huge, context=512]" + ours + " : %.0f ms"));
        assertTrue(failure("max[size=small, xl; context=512]" + ours + " : %.0f ms")
                .startsWith("the cases of max must have the same columns"));
    }

    @Test
    void aFormatNamesThePlace() {
        String ratio = ALL + "(ours[size={size}, context={context}] / peer[size={size}, context={context}])";
        assertEquals("3.0× (small, 1,024 tokens)", numbers.text("max" + ratio + " : %.1f× ({size}, {context} tokens)"));
        assertEquals("0.1 (xl)", numbers.text("min" + ratio + " : %.1f ({size})"));
        assertEquals("7 (5)", numbers.text("max[a=5, 6](7 + {a} - {a}) : %.0f ({a})"), "the first of equal values");
        assertEquals("7 (5)", numbers.text("min[a=5, 6](7 + {a} - {a}) : %.0f ({a})"), "the first of equal values");
    }

    @Test
    void onlyASingleExtremeHasAPlace() {
        String max = "max[size=small, xl](ours[size={size}, context=512])";
        assertEquals(
                "\"({size})\" is the place of an extreme; the expression must be one min or max",
                failure("2 * " + max + " : %.1f ms ({size})"));
        assertTrue(failure(max + " + 1 ms : %.1f ms ({size})").contains("is the place of an extreme"));
        assertTrue(failure("ours[size=xl, context=512] : %.1f ms ({size})").contains("is the place of an extreme"));
        assertEquals("the extreme has no name {context}; it has size", failure(max + " : %.1f ms ({context})"));
        assertTrue(failure(max + " : %.1f ms (xl)").startsWith("format \"%.1f ms (xl)\" must be"));
    }

    @Test
    void malformedExtremesAreRejected() {
        assertTrue(failure("max(ours[size=xl, context=512]) : %.1f ms").startsWith("'[' is missing"));
        assertTrue(failure("max[size=small, xl] ours[size={size}] : %.1f ms").startsWith("'(' is missing"));
        assertTrue(failure("max[size=small, xl](ours[size={size}] : %.1f ms").startsWith("')' is missing"));
        assertTrue(failure("max[size=small, xl(ours) : %.1f ms").startsWith("']' is missing"));
        assertTrue(failure("max[small, xl](ours) : %.1f ms").startsWith("\"small\" is not of the form column=value"));
        assertTrue(failure("max[size=small, xl, size=huge](ours) : %.1f ms").startsWith("column size has two filters"));
        assertEquals(
                "an extreme must be over two or more cases",
                failure("max[size=xl](ours[size={size}, context=512]) : %.1f ms"));
        assertEquals(
                "an extreme must not have a case twice",
                failure("max[size=xl, small, xl](ours[size={size}, context=512]) : %.1f ms"));
        assertEquals(
                "\"ours[size=xl, context={context}]\" does not contain {size}",
                failure("max[size=xl, small, context=512, 1024](ours[size=xl, context={context}]) : %.1f ms"));
        assertTrue(failure("max[size=xl, small](ours[size={size}, context=512]) 3 : %.1f ms")
                .startsWith("\"3\" is not expected"));
        assertThrows(IllegalArgumentException.class, () -> numbers.define("max", "pairs"));
    }

    @Test
    void anErrorOfOneCaseNamesIt() {
        assertEquals(
                "in the case size=huge, context=1024: no row matches pairs[program=ours, size=huge, context=1024]:"
                        + " context is 512 there",
                failure("max[size=small, huge, context=512, 1024](ours[size={size}, context={context}]) : %.1f ms"));
        assertTrue(failure("min[size=small, huge](peer[size={size}, context=512]) : %.1f ms")
                .startsWith(
                        "in the case size=huge: pairs[program=peer, size=huge, context=512]: the row has no numbers"));
        assertTrue(failure("min[size=small, xl](ours[size={size}]) : %.1f ms")
                .startsWith("in the case size=small: ambiguous"));
    }

    @Test
    void deeplyNestedExtremesAreAnError() {
        String deep = "max[a=1, 2](".repeat(1000) + "{a}" + ")".repeat(1000);
        assertThrows(IllegalArgumentException.class, () -> numbers.text(deep + " : %d"));
        var nested = new StringBuilder("1");
        for (int i = 0; i < 101; i++) {
            nested.insert(0, "max[a" + i + "=1, 2]({a" + i + "} - {a" + i + "} + ")
                    .append(")");
        }
        assertTrue(failure(nested + " : %d").contains("more than 3 nested extremes"));
    }

    @Test
    void allCasesCountAsUsed() {
        numbers.text("max[size=small, xl](ours[size={size}, context=512]) : %.0f ms");
        assertEquals(2, numbers.used().values().iterator().next().rowCount());
    }

    @Test
    void aDefinitionMayBeAnExtreme() {
        numbers.define("longest", "max[size=small, xl](ours[size={size}, context=1024])");
        assertEquals("0.10\u00a0s", numbers.text("longest : %.2f s"));
    }

    @Test
    void aTableRowFillsItsNamesBeforeTheExtreme() {
        String prose = numbers.prose("""
                ```table
                | size | longest |
                |---|---|
                for: size = small; xl
                | {size} | {{max[context=512, 1024](ours[size={size}, context={context}]) : %.0f ms ({context})}} |
                caption: Made up
                ```
                """);
        assertTrue(prose.contains("| small | 9\u00a0ms (1,024) |\n| xl | 100\u00a0ms (1,024) |"), prose);
    }

    @Test
    void aWriteupReportsOneErrorWithFileLineAndExpression() throws IOException {
        String reference = "max[size=small, tiny](pairs[size={size}, context=512, program=ours]) : %.1f ms";
        Path file = folder.resolve("writeup/writeup.md");
        Files.writeString(
                file, "---\ntitle: Made up\nmachine: pretend\n---\n\n# Made up\n\nUp to {{" + reference + "}}.\n");
        String message = assertThrows(WriteupException.class, () -> Writeup.read(file.getParent()))
                .getMessage();
        List<String> lines =
                message.lines().filter(line -> line.contains("writeup.md")).toList();
        assertEquals(1, lines.size(), message);
        assertTrue(
                lines.get(0)
                        .endsWith("writeup.md:8: {{" + reference
                                + "}}: in the case size=tiny: no row matches pairs[size=tiny, context=512, program=ours]:"
                                + " size is small, xl, huge, size there"),
                message);
    }
}
