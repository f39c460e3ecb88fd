package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class CheckpointTest extends ScopedTest {
    private static final AdamWSettings OPTIONS = AdamWSettings.of(0.01);

    @TempDir
    Path folder;

    private Path file;

    @BeforeEach
    void open() {
        file = folder.resolve("model.safetensors");
        Torch.seed(5);
    }

    private static TransformerLM model(ModelEdition edition, int layers) {
        TransformerConfig config = TransformerConfig.builder()
                .edition(edition)
                .vocabSize(11)
                .contextLength(6)
                .dModel(8)
                .numLayers(layers)
                .numHeads(2)
                .dFf(12)
                .build();
        return new TransformerLM(config, Device.cpu());
    }

    private static void train(TransformerLM model, Optimizer optimizer, Batches batches, int steps) {
        for (int i = 0; i < steps; i++) {
            try (var step = MemoryScope.open()) {
                Batches.Batch batch = batches.next();
                optimizer.zeroGrad();
                Losses.crossEntropy(model.forward(batch.inputs()), batch.targets())
                        .backward();
                optimizer.step();
            }
        }
    }

    @Test
    void resumedTrainingEqualsUninterruptedTrainingBitForBit() throws IOException {
        for (ModelEdition edition : ModelEdition.values()) {
            Batches batches = Batches.random(11, 2, 6, Device.cpu(), 1);
            TransformerLM model = model(edition, 2);
            var optimizer = new AdamW(model.namedParameters(), OPTIONS);
            train(model, optimizer, batches, 3);
            Checkpoint.save(file, model.namedParameters(), optimizer, Map.of("step", "3"));
            train(model, optimizer, batches, 3);

            Batches again = Batches.random(11, 2, 6, Device.cpu(), 1);
            TransformerLM resumed = model(edition, 2);
            var resumedOptimizer = new AdamW(resumed.namedParameters(), OPTIONS);
            Map<String, String> metadata = Checkpoint.load(file, resumed.namedParameters(), resumedOptimizer);
            assertEquals(Map.of("step", "3"), metadata);
            for (int i = 0; i < 3; i++) {
                again.next();
            }
            train(resumed, resumedOptimizer, again, 3);
            model.namedParameters()
                    .forEach((name, parameter) -> assertTrue(
                            torch.equal(parameter, resumed.namedParameters().get(name)), name));
        }
    }

    @Test
    void parametersLoadWithoutOptimizerState() throws IOException {
        TransformerLM model = model(ModelEdition.SPRING_2025, 1);
        var optimizer = new AdamW(model.namedParameters(), OPTIONS);
        train(model, optimizer, Batches.random(11, 2, 6, Device.cpu(), 1), 1);
        Checkpoint.save(file, model.namedParameters(), optimizer, Map.of());
        TransformerLM loaded = model(ModelEdition.SPRING_2025, 1);
        Checkpoint.load(file, loaded.namedParameters());
        model.namedParameters()
                .forEach((name, parameter) -> assertTrue(
                        torch.equal(parameter, loaded.namedParameters().get(name)), name));
    }

    @Test
    void mismatchesAreNamedAndChangeNothing() throws IOException {
        Map<String, Tensor> saved = new LinkedHashMap<>();
        saved.put("a", torch.ones(2, 3));
        saved.put("b", torch.ones(4));
        Checkpoint.save(file, saved, Map.of());

        assertRefused(Map.of("a", torch.zeros(2, 3)), null, "has the unexpected parameter b");
        assertRefused(parameters(torch.zeros(2, 3), torch.zeros(4), "c"), null, "has no parameter c");
        assertRefused(
                parameters(torch.zeros(3, 2), torch.zeros(4), null), null, "has a as fp32[2, 3]; expected fp32[3, 2]");
        assertRefused(
                parameters(torch.zeros(2, 3).to(torch.ScalarType.Double), torch.zeros(4), null),
                null,
                "has a as fp32[2, 3]; expected fp64[2, 3]");
        Map<String, Tensor> fitting = parameters(torch.zeros(2, 3), torch.zeros(4), null);
        assertRefused(fitting, new AdamW(fitting, OPTIONS), "has the state of no optimizer; expected AdamW");
        Checkpoint.save(file, saved, new Sgd(saved, 0.1, 0.9), Map.of());
        assertRefused(fitting, new AdamW(fitting, OPTIONS), "has the state of the optimizer Sgd; expected AdamW");
        assertThrows(
                IllegalArgumentException.class,
                () -> Checkpoint.save(file, saved, new Sgd(saved, 0.1, 0.9), Map.of("optimizer", "mine")));
        assertThrows(IOException.class, () -> Checkpoint.load(folder.resolve("none"), fitting));
        String header = "{\"a\":{\"dtype\":\"I16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}     ";
        Files.writeString(file, (char) header.length() + "\0\0\0\0\0\0\0" + header + "0".repeat(12));
        assertRefused(Map.of("a", torch.zeros(2, 3)), null, "has a as I16[2, 3]; expected fp32[2, 3]");
        Files.writeString(file, "no checkpoint at all");
        assertThrows(IOException.class, () -> Checkpoint.load(file, fitting));
    }

    @Test
    void aChangedByteIsNoticedAndChangesNothing() throws IOException {
        Map<String, Tensor> saved = parameters(torch.randn(2, 3), torch.randn(4), null);
        Checkpoint.save(file, saved, Map.of());
        byte[] bytes = Files.readAllBytes(file);
        Map<String, Tensor> read = parameters(torch.zeros(2, 3), torch.zeros(4), null);
        int elements = 2 * 3 + 4;
        for (int i = 1; i <= elements * Float.BYTES; i++) { // the elements are the last bytes
            byte[] damaged = bytes.clone();
            damaged[bytes.length - i] ^= 1;
            Files.write(file, damaged);
            assertThrows(IOException.class, () -> Checkpoint.load(file, read));
        }
        read.values().forEach(tensor -> assertEquals(0, tensor.abs().max().item_double()));
        Files.write(file, bytes);
        Checkpoint.load(file, read);
        saved.forEach((name, tensor) -> assertTrue(tensor.equal(read.get(name)), name));
    }

    private static Map<String, Tensor> parameters(Tensor a, Tensor b, String more) {
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        parameters.put("a", a);
        parameters.put("b", b);
        if (more != null) {
            parameters.put(more, torch.zeros(1));
        }
        return parameters;
    }

    @Test
    void theReservedEntryIsRefusedWithAndWithoutAnOptimizer() {
        Map<String, String> metadata = Map.of("optimizer", "AdamW");
        Map<String, Tensor> parameters = model(ModelEdition.SPRING_2025, 1).namedParameters();
        for (Executable save : List.<Executable>of(
                () -> Checkpoint.save(file, parameters, metadata),
                () -> Checkpoint.save(file, parameters, "Sgd", Map.of(), metadata))) {
            var e = assertThrows(IllegalArgumentException.class, save);
            assertEquals("metadata must not contain the reserved name 'optimizer'", e.getMessage());
        }
        Map<String, Tensor> reserved = Map.of("optimizer.weight", torch.ones(3));
        var e = assertThrows(IllegalArgumentException.class, () -> Checkpoint.save(file, reserved, Map.of()));
        assertTrue(e.getMessage().startsWith("parameter optimizer.weight must not begin with"), e.getMessage());
    }

    private void assertRefused(Map<String, Tensor> parameters, Optimizer optimizer, String message) {
        var error = assertThrows(IllegalArgumentException.class, () -> Checkpoint.load(file, parameters, optimizer));
        assertTrue(error.getMessage().startsWith(file + " " + message), error.getMessage());
        parameters.values().forEach(tensor -> assertEquals(0, tensor.abs().sum().item_double()));
    }
}
