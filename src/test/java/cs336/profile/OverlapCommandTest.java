package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class OverlapCommandTest extends CommandTest {
    private int run(Object... arguments) {
        return runWithoutOutput(
                new OverlapCommand(), Stream.of(arguments).map(Object::toString).collect(Collectors.joining(" ")));
    }

    /** Returns a trace of a kernel of 4 ms and a communication kernel that starts at 3 ms. */
    private Path trace(String name, int communication) throws IOException {
        String kernel = """
                {"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d, "ts": %d, "dur": %d}""";
        return Files.writeString(
                Files.createDirectories(folder.resolve(name).getParent()).resolve(folder.resolve(name)),
                "[" + kernel.formatted("gemm", 7, 0, 4000) + ","
                        + kernel.formatted("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 3000, communication) + "]");
    }

    @Test
    void eachRankHasARowNamedAfterItsFileAndTheFigureShowsBoth() throws IOException {
        Path figures = folder.resolve("figures");
        assertEquals(0, run(trace("a.json", 4000), trace("b.pt.trace.json", 2000), "--figure", figures), err::toString);
        assertEquals(
                List.of(
                        "a cuda:0 7.000 4.000 1.000 0.2500 57.14 42.86 0 0",
                        "b cuda:0 5.000 2.000 1.000 0.5000 80.00 20.00 0 0"),
                out.toString()
                        .lines()
                        .skip(1)
                        .map(line -> line.replaceAll(" +", " "))
                        .toList());
        String svg = Files.readString(figures.resolve("overlap.svg"));
        assertTrue(svg.contains("<svg"), svg.substring(0, 100));
    }

    @Test
    void filesOfTheSameNameAreShownWithTheirFolders() throws IOException {
        Path a = trace("0/trace.json", 1000);
        Path b = trace("1/trace.json", 1000);
        assertEquals(0, run(a, b));
        assertTrue(out.toString().contains(a + " "), out.toString());
        assertTrue(out.toString().contains(b + " "), out.toString());
    }

    @Test
    void wrongUseIsReportedInOneLine() throws IOException {
        Path twice = trace("a.json", 1000);
        assertEquals(2, run(twice, twice));
        assertEquals("TRACE " + twice + " is given twice; each rank has its own file", err.toString());
        err.getBuffer().setLength(0);
        Path empty = Files.writeString(folder.resolve("empty.json"), "[]");
        assertEquals(2, run(empty));
        assertTrue(err.toString().matches("TRACE .*empty.json has no events"), err.toString());
        err.getBuffer().setLength(0);
        Path text = Files.writeString(folder.resolve("text.json"), "x");
        assertEquals(2, run(text));
        assertTrue(err.toString().startsWith(text + " is not a trace"), err.toString());
        err.getBuffer().setLength(0);
        assertEquals(2, run(twice, "--levels", "-1", "--figure", folder));
        assertEquals("--levels must be at least 0, not -1", err.toString());
    }
}
