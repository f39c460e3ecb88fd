package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class DdpCommandTest extends CommandTest {
    private static final String TINY =
            "--d-model 8 --layers 1 --heads 2 --vocab 11 --context 4 --batch 1 --warmup 1 --steps 2 --machine here";

    @Test
    void theToyModelsMatchTheBaseline() {
        assertEquals(0, run(new DdpCommand(), "--model toy"), err::toString);
        assertEquals(List.of(), host.warnings(), "nothing is timed");
        assertTrue(out.toString().startsWith("Naive DDP matches baseline!\n"), out.toString());
    }

    @Test
    void everyModeIsMeasuredAndStoredWithItsOverlap() throws IOException {
        String modes = TINY + " --rounds 2 --mode none,naive,flat,overlapped,bucketed --bucket-size-mb 0.001,1";
        Path traces = folder.resolve("traces");
        assertEquals(0, run(new DdpCommand(), modes, "--trace", traces.toString()), err::toString);
        assertEquals(1, host.warnings().size(), "one warning about the busy host");

        Path stored = folder.resolve("here");
        Table rows = Measurements.read(stored.resolve("ddp_benchmarking.csv"));
        assertEquals(
                6, rows.where(rows.stringColumn("metric").isEqualTo("total")).rowCount());
        int parameters = 2 + 2 + 4 + 3 + 1; // embeddings and head; three norms; attention; SwiGLU
        for (Row row : rows) {
            String mode = row.getString("mode");
            double value = row.getDouble("median");
            switch (row.getString("metric")) {
                case "messages" -> {
                    if (mode.equals("naive") || mode.equals("overlapped")) {
                        assertEquals(parameters, value);
                    }
                    if (mode.equals("flat")) {
                        assertEquals(1, value);
                    }
                    if (mode.equals("none")) {
                        assertEquals(0, value);
                    }
                }
                case "total" -> assertEquals(4, row.getInt("n"), "2 rounds of 2 steps");
                default -> assertTrue(value >= 0, row.getString("metric") + " of " + mode + " is " + value);
            }
        }
        Table overlap = Measurements.read(stored.resolve("ddp_benchmarking_overlap.csv"));
        Table ratios = overlap.where(overlap.stringColumn("metric").isEqualTo("overlap-ratio"));
        assertEquals(
                List.of("bucketed", "bucketed", "flat", "naive", "overlapped"),
                ratios.stringColumn("mode").asList().stream().sorted().toList());
        Table naive = ratios.where(ratios.stringColumn("mode").isEqualTo("naive"));
        assertEquals(1, naive.rowCount());
        assertEquals(0, naive.row(0).getDouble("max"));
        for (String name : List.of("naive", "flat", "overlapped", "bucketed-0.001mb", "bucketed-1mb")) {
            for (int rank = 0; rank < 2; rank++) {
                assertTrue(Files.exists(traces.resolve(name + "-rank" + rank + ".json.gz")), name);
            }
        }
    }

    @Test
    void compiledStepsAreMeasuredNextToEagerOnes() throws IOException {
        String modes = TINY + " --rounds 1 --mode none,bucketed --bucket-size-mb 0.001 --execution eager,compiled-step";
        assertEquals(0, run(new DdpCommand(), modes), err::toString);
        Table rows = Measurements.read(folder.resolve("here").resolve("ddp_benchmarking.csv"));
        for (String metric : List.of("total", "messages")) {
            Table found = rows.where(rows.stringColumn("metric").isEqualTo(metric));
            assertEquals(
                    List.of("plain", "plain", "plain+compiled-step", "plain+compiled-step"),
                    found.stringColumn("implementation").asList().stream()
                            .sorted()
                            .toList());
        }
        Table phases = rows.where(rows.stringColumn("metric").isEqualTo("backward"));
        assertEquals(
                List.of("plain", "plain"), phases.stringColumn("implementation").asList());
    }

    @Test
    void storedModesAreReportedAndPrinted() {
        String flat = TINY + " --rounds 1 --mode flat --trace ";
        String traces = folder.resolve("traces").toString();
        assertEquals(0, run(new DdpCommand(), flat + traces), err::toString);
        assertEquals(1, host.warnings().size(), "one warning about the busy host");
        String first = out.toString();
        out.getBuffer().setLength(0);
        assertEquals(0, run(new DdpCommand(), flat + traces), err::toString);
        assertEquals(1, host.warnings().size(), "the second run times nothing");
        assertEquals(first, out.toString());
        String said = progress.toString(StandardCharsets.UTF_8);
        int started = said.indexOf("[0] round 1 of 1 [1/1] plain size=");
        int stored = said.indexOf("[0] round 1 of 1 is stored in " + folder);
        assertTrue(0 <= started && started < stored, said);
        assertTrue(said.contains("[0] traces [1/1] plain size="), said);
        assertTrue(said.contains("[0] 1 of 1 case stored already in " + folder), said);
    }

    @Test
    void invalidOptionsAreReportedBeforeAnyRankStarts() {
        rejected("--mode ring", "mode 'ring' is unknown; known: none, naive, flat, overlapped, bucketed");
        rejected(
                "--model toy --mode none",
                "--mode must be one of naive, flat, overlapped, bucketed with --model toy, not 'none'");
        rejected("--processes 0", "--processes must be at least 1, not 0");
        rejected("--bucket-size-mb 0", "--bucket-size-mb must be above 0, not 0.0");
        rejected("--bucket-size-mb 1,1e999", "--bucket-size-mb must be at most 9223372036854, not Infinity");
        rejected("--mode naive,flat --bucket-size-mb 10", "--bucket-size-mb has no effect without --mode bucketed");
        rejected("--dtype fp16", "--dtype must be fp32, tf32 or bf16, not 'fp16'");
        rejected("--device cuda:1", "--device must be best, cpu or cuda");
        rejected("--backend mpi", "backend 'mpi' is unknown; known: gloo, nccl");
        rejected("--trace-only naive", "--trace-only needs --trace, the folder of the traces");
        rejected("--trace t --trace-only flat", "--trace-only 'flat' is unknown; known: naive");
        rejected("--emulate-nodes 2", "--emulate-nodes needs --backend nccl, not gloo");
        rejected(
                "--execution jit", "--execution 'jit' is unknown; known: eager, compiled-step, compiled-step-in-graph");
        rejected(
                "--execution compiled-step-in-graph",
                "--execution compiled-step-in-graph needs --backend nccl, not gloo");
        rejected("--model toy --execution compiled-step", "--execution has no effect with --model toy");
        rejected("--model toy --steps 77", "--steps has no effect with --model toy");
        rejected("--model toy --d-model 32", "--d-model has no effect with --model toy");
        rejected("--steps 0", "--steps must be at least 1, not 0");
        rejected("--model toy --steps 0 --rounds 0", "--steps must be at least 1, not 0");
        rejected("--model toy --rounds 0", "--rounds must be at least 1, not 0");
        rejected("--model toy --processes 7", "--processes must divide the toy model's batch size 20, not be 7");
        rejected("--processes 100000", "--processes must be at most 128, not 100000");
    }

    @Test
    void aTraceFolderThatCannotBeCreatedIsReportedBeforeAnythingIsMeasured() {
        assertEquals(1, run(new DdpCommand(), TINY, "--trace", "/proc/nowhere"));
        assertFalse(Files.exists(folder.resolve("here")));
    }

    private void rejected(String arguments, String message) {
        err.getBuffer().setLength(0);
        assertEquals(2, run(new DdpCommand(), arguments));
        assertTrue(err.toString().contains(message), err.toString());
    }
}
