package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Row;

class FsdpCommandTest extends CommandTest {
    private static final String TINY = "--d-model 64 --layers 4 --heads 2 --vocab 500 --batch 1 --context 8"
            + " --bucket-size-mb 0.1 --machine here --device cpu --warmup 1 --steps 2 --rounds 1 ";

    private static final String FILE = "here/fsdp_accounting.csv";

    private static final TransformerConfig SMALL = TransformerConfig.builder()
            .edition(ModelEdition.SPRING_2025)
            .vocabSize(11)
            .contextLength(4)
            .dModel(8)
            .numLayers(1)
            .numHeads(2)
            .dFf(16)
            .normalization("rmsnorm")
            .attention("plain")
            .build();

    @TempDir
    private static Path shared;

    /** Returns the measurements of all modes with the default options, which the first test that needs them stores. */
    private Path plainMeasurements() throws IOException {
        Path file = shared.resolve("plain.csv");
        if (Files.notExists(file)) {
            assertEquals(0, run(new FsdpCommand(), TINY), err.toString());
            assertEquals(1, host.warnings().size(), "one warning about the busy host");
            String said = progress.toString(StandardCharsets.UTF_8);
            assertTrue(said.contains("[0] memory [2/"), said);
            assertTrue(said.contains("[0] round 1 of 1 [2/"), said);
            Files.copy(folder.resolve(FILE), file);
        }
        return file;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--mode half | mode 'half' is unknown; known: ddp, zero-1, fsdp, fsdp-without-prefetch, hsdp",
                "--mode fsdp,hsdp | --mode hsdp needs several nodes: --emulate-nodes, or --join on a cluster",
                "--mode hsdp --emulate-nodes 2 --processes 3 | --processes must be divisible by --emulate-nodes 2, not 3",
                "--mode fsdp --emulate-nodes 2 | --emulate-nodes needs --backend nccl, not gloo, which always uses sockets",
                "--dtype fp16 | --dtype must be fp32 or bf16, not fp16",
                "--bucket-size-mb 0 | --bucket-size-mb must be above 0, not 0.0",
                "--bucket-size-mb 99999999999999 | --bucket-size-mb must be at most 9223372036854, not 9.9999999999999E13",
                "--loss-rows -1 | --loss-rows must be at least 0, not -1",
                "--checkpointing some | checkpointing policy 'some' is unknown; known: everything, elementwise, elementwise+ffn-<k>, elementwise+offload-<k>, all-but-ffn, ffn-<k>, nothing, blocks-<k>, recursive",
                "--fusion some | fusion 'some' is unknown; known: compiled, none",
                "--processes 0 | --processes must be at least 1, not 0",
                "--device cuda:1 | --device must be best, cpu or cuda (each rank selects its own GPU), not 'cuda:1'",
            })
    void invalidOptionsAreOneLineAndExitCodeTwo(String arguments, String message) {
        assertEquals(2, run(new FsdpCommand(), arguments));
        assertEquals(message, err.toString());
    }

    @Test
    void recomputationAndFusionDoNotChangeTheLoss() throws IOException {
        Map<String, Double> plain = new HashMap<>();
        for (Row row : Measurements.read(plainMeasurements())) {
            assertEquals("plain", row.getString("implementation"));
            plain.put(row.getString("mode") + " " + row.getString("metric"), row.getDouble("mean"));
        }
        assertEquals(
                0,
                run(
                        new FsdpCommand(),
                        TINY
                                + "--mode ddp,fsdp --attention flash --fusion compiled --checkpointing all-but-ffn"
                                + " --loss-rows 3 --trace " + folder.resolve("traces")),
                err.toString());
        int compared = 0;
        for (Row row : Measurements.read(folder.resolve(FILE))) {
            String key = row.getString("mode") + " " + row.getString("metric");
            if (row.getString("implementation").equals("plain")) {
                assertEquals(plain.get(key), row.getDouble("mean"), key);
            } else if (key.contains("loss-") || key.contains("gradient-norm-")) {
                assertEquals(1, row.getDouble("mean") / plain.get(key), 1e-4, key);
                compared++;
            }
        }
        assertEquals(2 * 6, compared);
        for (String trace : List.of("ddp-0.1mb-rank0", "ddp-0.1mb-rank1", "fsdp-rank0", "fsdp-rank1")) {
            assertTrue(Files.exists(folder.resolve("traces").resolve(trace + ".json.gz")), trace);
        }
        assertEquals(
                List.of("ddp", "fsdp"),
                Measurements.read(folder.resolve("here/fsdp_accounting_overlap.csv"))
                        .stringColumn("mode")
                        .unique()
                        .asList());
    }

    @Test
    void memoryIsStoredBeforeAnyRoundIsTimed() throws IOException {
        var setup = new RankCase(
                new ModelOptions.Model("tiny", SMALL, 1),
                Precision.FP32,
                CollectiveBackend.GLOO,
                1,
                1,
                "fsdp",
                0,
                1,
                0);
        var storage = new MeasurementFile(folder.toString(), "here", "early", false);
        var plan = new TrainingPlan(new ArrayList<>(List.of(FsdpBenchmark.caseOf(setup))), 0, 1, 0, storage);
        Path rendezvous = folder.resolve("rendezvous");
        try (var group = ProcessGroup.join(
                World.local(0, 1, 29_500), CollectiveBackend.GLOO, Duration.ofSeconds(20), rendezvous)) {
            new FsdpBenchmark().run(group, new TracedPlan(plan, null, new ArrayList<>()));
        }
        var metrics = new HashSet<String>();
        for (Row row : Measurements.read(folder.resolve("here/early.csv"))) {
            metrics.add(row.getString("metric"));
        }
        assertTrue(
                metrics.containsAll(Set.of("init", "before-step", "peak", "loss-3", "gradient-norm-3")),
                metrics.toString());
    }

    @Test
    void shardedParametersHalveTheMemoryOfTwoRanks() throws IOException {
        Map<String, Double> numbers = new HashMap<>();
        for (Row row : Measurements.read(plainMeasurements())) {
            assertEquals("ok", row.getString("status"));
            numbers.put(row.getString("mode") + " " + row.getString("metric"), row.getDouble("mean"));
        }
        double block = 4 * (4 * 64 * 64 + 3 * 64 * 256.0);
        double parameters = 4 * block + 2 * 4 * 500 * 64 + 4 * 9 * 64;
        for (String mode : List.of("fsdp", "fsdp-without-prefetch")) {
            assertTrue(numbers.get(mode + " init") < 0.55 * numbers.get("ddp init"), numbers.toString());
            assertTrue(numbers.get(mode + " peak") < 0.65 * numbers.get("ddp peak"), numbers.toString());
            // Blocks are gathered twice, embedding and head once; gradients are reduced once. On two ranks each sends
            // half of the bytes, but Gloo's reduce-scatter all of them.
            double gathered = (2 * 4 * block + 2 * 4 * 500 * 64) / 2;
            assertEquals(1, numbers.get(mode + " least-sent") / (gathered + parameters / 2), 0.01, mode);
            assertEquals(1, numbers.get(mode + " sent") / (gathered + parameters), 0.05, mode);
            assertTrue(numbers.get(mode + " total") > 0);
        }
        for (String mode : List.of("zero-1", "fsdp", "fsdp-without-prefetch")) {
            for (int step = 1; step <= 3; step++) { // all modes train the same model on the same batches
                for (String result : List.of(" loss-" + step, " gradient-norm-" + step)) {
                    assertEquals(1, numbers.get(mode + result) / numbers.get("ddp" + result), 1e-4, mode + result);
                }
            }
        }
        assertEquals(1, numbers.get("ddp least-sent") / parameters, 0.01);
        assertTrue(numbers.get("zero-1 before-step") < 0.9 * numbers.get("ddp before-step"), numbers.toString());
    }

    @Test
    void hybridShardingShardsWithinANodeAndSendsShardsOfGradientsAcross() throws IOException {
        String options = TINY + "--mode fsdp,hsdp --processes 4 --emulate-nodes 2";
        assertEquals(0, run(new FsdpCommand(), options), err.toString());
        Map<String, Double> numbers = new HashMap<>();
        for (Row row : Measurements.read(folder.resolve(FILE))) {
            assertEquals(2, row.getInt("nodes"));
            // Gloo's threads may still hold buffers of the construction on some ranks.
            String statistic = row.getString("metric").equals("init") ? "min" : "mean";
            numbers.put(row.getString("mode") + " " + row.getString("metric"), row.getDouble(statistic));
        }
        for (int step = 1; step <= 3; step++) {
            for (String result : List.of(" loss-" + step, " gradient-norm-" + step)) {
                assertEquals(1, numbers.get("hsdp" + result) / numbers.get("fsdp" + result), 1e-4, result);
            }
        }
        assertEquals(2, numbers.get("hsdp init") / numbers.get("fsdp init"), 0.2, numbers.toString());
        double block = 4 * (4 * 64 * 64 + 3 * 64 * 256.0);
        double sharded = 4 * block + 2 * 4 * 500 * 64;
        double norms = 4 * 9 * 64;
        double gathered = 2 * 4 * block + 2 * 4 * 500 * 64;
        // All-gathers and reduce-scatters of two ranks, all-reduces of half the gradients of two ranks, and of the norm
        // weights of four.
        double expected = (gathered + sharded) / 2 + sharded / 2 + 2 * norms * 3 / 4;
        assertEquals(1, numbers.get("hsdp least-sent") / expected, 0.01, numbers.toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "0/2 1/2 0/2 1/2 | ",
                "0/1 0/1 | ",
                "0/3 1/3 2/3 0/1 | mode hsdp needs the same number of ranks on each node, not 3 on the node of rank 0"
                        + " and 1 on the node of rank 3",
                "0/2 0/2 1/2 1/2 | mode hsdp needs consecutive ranks on each node, as with srun --distribution=block; rank"
                        + " 1 has the local rank 0 of 2",
            })
    void hybridShardingNeedsEqualNodes(String ranks, String message) {
        List<int[]> positions = Arrays.stream(ranks.split(" "))
                .map(rank -> Arrays.stream(rank.split("/"))
                        .mapToInt(Integer::parseInt)
                        .toArray())
                .toList();
        if (message == null) {
            DataParallelTraining.requireEqualNodes(positions);
        } else {
            assertEquals(
                    message,
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () -> DataParallelTraining.requireEqualNodes(positions))
                            .getMessage());
        }
    }
}
