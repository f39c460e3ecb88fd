package cs336.checkpoints;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Checkpoint;
import cs336.bench.MemoryGrowth;
import cs336.bench.Project;
import cs336.bench.TestJvm;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointFolderTest extends ScopedTest {
    @TempDir
    Path parent;

    private Path path;
    private final List<String> damage = new ArrayList<>();

    @BeforeEach
    void choose() {
        path = parent.resolve("new/checkpoints");
    }

    private static TrainingProgress after(long steps) {
        return new TrainingProgress(steps, 4 * steps, 2, "a text", Map.of(), List.of());
    }

    private static void save(CheckpointFolder folder, long steps) throws IOException {
        folder.save(after(steps), Map.of("w", torch.full(new long[] {3}, new Scalar((double) steps))), "Sgd", Map.of());
    }

    private static double value(Path file) throws IOException {
        Tensor w = torch.zeros(3);
        Checkpoint.load(file, Map.of("w", w));
        return w.mean().item_double();
    }

    private Set<String> names() throws IOException {
        var names = new HashSet<String>();
        try (var files = Files.list(path)) {
            files.forEach(file -> names.add(file.getFileName().toString()));
        }
        names.remove(".lock");
        return names;
    }

    @Test
    void theLastTwoAreKeptAndTheLastIsFound() throws IOException {
        assertEquals(-1, CheckpointFolder.lastStep(path));
        try (var folder = CheckpointFolder.open(path)) {
            assertNull(folder.latest(damage::add));
            for (long steps : new long[] {8, 9, 10, 11}) {
                save(folder, steps);
            }
        }
        assertEquals(Set.of("step-000000010.safetensors", "step-000000011.safetensors"), names());
        assertEquals(11, CheckpointFolder.lastStep(path));
        try (var folder = CheckpointFolder.open(path)) {
            assertEquals(11, value(folder.latest(damage::add)));
        }
        assertEquals(List.of(), damage);
    }

    @Test
    void tensorsMayChangeWhileTheyAreWritten() throws IOException {
        Tensor w = torch.zeros(4_000_000);
        Tensor m = torch.zeros(4_000_000);
        for (int steps = 1; steps <= 3; steps++) {
            Path file;
            try (var folder = CheckpointFolder.open(path)) {
                file = folder.save(after(steps), Map.of("w", w), "Sgd", Map.of("m", m));
                w.add_(new Scalar(1.0));
                m.add_(new Scalar(1.0));
            }
            Map<String, Tensor> loaded = Map.of("w", torch.empty_like(w), "optimizer.m", torch.empty_like(m));
            Checkpoint.load(file, loaded);
            for (var tensor : loaded.entrySet()) {
                assertEquals(steps - 1, tensor.getValue().min().item_double(), tensor.getKey());
                assertEquals(steps - 1, tensor.getValue().max().item_double(), tensor.getKey());
            }
        }
    }

    @Test
    void progressAndRandomStatesAreReadBack() throws IOException {
        Torch.seed(3);
        torch.randn(5);
        Map<String, String> settings = Map.of("lr", "--lr 0.1", "clip", "--clip 1.0", "other", "");
        var progress = new TrainingProgress(
                7, 28, 2, "a text", settings, List.of(Torch.randomState(Device.cpu()), new byte[] {1, -2}));
        try (var folder = CheckpointFolder.open(path)) {
            folder.save(progress, Map.of("w", torch.ones(3)), "Sgd", Map.of());
        }
        Tensor expected = torch.randn(100);
        Path file = path.resolve("step-000000007.safetensors");
        Map<String, String> metadata = Checkpoint.load(file, Map.of("w", torch.zeros(3)));
        var heads = assertThrows(IllegalArgumentException.class, () -> TrainingProgress.of(file, metadata, 4, 4));
        assertEquals(file + " is a checkpoint of a model with 2 attention heads, not 4", heads.getMessage());
        TrainingProgress read = TrainingProgress.of(file, metadata, 2, 4);
        assertEquals(7, read.steps());
        assertEquals(28, read.sequences());
        assertEquals(2, read.randomStates().size());
        assertEquals(settings, read.settings());
        assertEquals(List.of(), read.changes(file, "a text", Map.of("lr", "--lr 0.1", "unknown", "")));
        assertEquals(
                List.of(
                        file + " was trained on a text; this run continues on another text",
                        file + " was trained with --lr 0.1; this run continues with --lr 0.2"),
                read.changes(file, "another text", Map.of("lr", "--lr 0.2", "clip", "--clip 1.0")));
        assertArrayEquals(new byte[] {1, -2}, read.randomStates().get(1));
        Torch.seed(1234);
        byte[] other = Torch.randomState(Device.cpu());
        read.restoreRandomState(file, 1, Device.cpu()); // of another kind of device
        read.restoreRandomState(file, 2, Device.cpu()); // of no rank
        assertArrayEquals(other, Torch.randomState(Device.cpu()));
        read.restoreRandomState(file, 0, Device.cpu());
        assertTrue(torch.equal(expected, torch.randn(100)));

        Checkpoint.save(file, Map.of("w", torch.ones(3)), Map.of("step", "-1", "heads", "2"));
        var e = assertThrows(
                IllegalArgumentException.class,
                () -> TrainingProgress.of(file, Checkpoint.load(file, Map.of("w", torch.zeros(3))), 2, 4));
        assertEquals(file + " has no number of trained steps in its metadata entry 'step'", e.getMessage());
    }

    @Test
    void aPositionFromWhichNoRunCouldResumeIsRefused() {
        var negative = assertThrows(
                IllegalArgumentException.class, () -> new TrainingProgress(-1, 4, 0, "a text", Map.of(), List.of()));
        assertEquals("steps must be at least 0, not -1", negative.getMessage());
        var uncounted = assertThrows(
                IllegalArgumentException.class, () -> new TrainingProgress(7, 0, 0, "a text", Map.of(), List.of()));
        assertEquals("sequences must be at least the number of steps, 7, not 0", uncounted.getMessage());
    }

    /** Saves a checkpoint in each step. */
    static final class SavingSteps implements MemoryGrowth.Work {
        /** Few bytes, because copies of it may wait for the writer when memory is read. */
        private final Tensor parameter = torch.zeros(2_000);

        private final AdamW optimizer = new AdamW(Map.of("w", parameter), AdamWSettings.of(0.1));
        private final CheckpointFolder folder;
        private long steps;

        SavingSteps() throws IOException {
            folder = CheckpointFolder.open(Project.path("target/saving-steps")); // which nobody deletes
        }

        @Override
        public void step() throws IOException {
            try (var scope = MemoryScope.open()) {
                var progress = new TrainingProgress(
                        ++steps, steps, 2, "a text", Map.of(), List.of(Torch.randomState(Device.cpu())));
                folder.save(progress, Map.of("w", parameter), optimizer.kind(), Map.of("m", parameter));
            }
        }
    }

    @Test
    void savingLeavesNoMemoryBehind() throws Exception {
        MemoryGrowth.assertFlat(SavingSteps.class, 150, 1000);
    }

    @Test
    void damagedCheckpointsAreReportedAndSetAside() throws IOException {
        try (var folder = CheckpointFolder.open(path)) {
            save(folder, 1);
            save(folder, 2);
        }
        Path last = path.resolve("step-000000002.safetensors");
        byte[] bytes = Files.readAllBytes(last);
        bytes[bytes.length - 1] ^= 1;
        Files.write(last, bytes);
        Files.createFile(path.resolve("step-000000003.safetensors"));
        try (var folder = CheckpointFolder.open(path)) {
            assertEquals(1, value(folder.latest(damage::add)));
            assertEquals(2, damage.size());
            assertTrue(damage.get(0).startsWith(path + "/step-000000003.safetensors has 0 bytes"), damage.get(0));
            assertTrue(damage.get(1).startsWith(last + " is damaged: its checksum is"), damage.get(1));
            assertTrue(damage.get(1)
                    .endsWith("; the last complete checkpoint is " + path + "/step-000000001.safetensors"));
            assertEquals(
                    Set.of(
                            "step-000000001.safetensors",
                            "step-000000002.safetensors.damaged",
                            "step-000000003.safetensors.damaged"),
                    names());
            save(folder, 2);
        }
        try (var folder = CheckpointFolder.open(path)) {
            assertEquals(2, value(folder.latest(Assertions::fail)));
        }
        Files.write(path.resolve("step-000000002.safetensors"), new byte[3]);
        Files.write(path.resolve("step-000000001.safetensors"), new byte[100]);
        try (var folder = CheckpointFolder.open(path)) {
            var e = assertThrows(IOException.class, () -> folder.latest(damage::add));
            assertTrue(e.getMessage().startsWith(path + "/step-000000002.safetensors has 3 bytes"), e.getMessage());
            assertTrue(e.getMessage().endsWith("; " + path + " has no complete checkpoint"), e.getMessage());
        }
    }

    @Test
    void anUnreadableCheckpointIsReportedAndNotRenamed() throws IOException {
        try (var folder = CheckpointFolder.open(path)) {
            save(folder, 1);
        }
        Path loop = path.resolve("step-000000002.safetensors");
        Files.createSymbolicLink(loop, loop.getFileName()); // so that no process can open it, not even root's
        try (var folder = CheckpointFolder.open(path)) {
            var e = assertThrows(FileSystemException.class, () -> folder.latest(damage::add));
            assertEquals(loop.toString(), e.getFile());
        }
        assertEquals(List.of(), damage);
        assertEquals(Set.of("step-000000001.safetensors", "step-000000002.safetensors"), names());
    }

    @Test
    void anInterruptIsNotReportedAsDamage() throws IOException {
        try (var folder = CheckpointFolder.open(path)) {
            save(folder, 1);
            folder.awaitWritten();
            Thread.currentThread().interrupt();
            var e = assertThrows(IOException.class, () -> folder.latest(Assertions::fail));
            assertTrue(Thread.interrupted(), "the interrupt is kept");
            assertEquals("interrupted while " + path + "/step-000000001.safetensors was read", e.getMessage());
        }
    }

    @Test
    void aClosedFolderWhichAnotherRunMayUseIsNotChanged() throws IOException {
        var folder = CheckpointFolder.open(path);
        folder.close();
        var e = assertThrows(IllegalStateException.class, () -> save(folder, 1));
        assertEquals("checkpoint folder " + path + " is closed", e.getMessage());
        assertThrows(IllegalStateException.class, () -> folder.latest(damage::add));
        assertEquals(Set.of(), names());
    }

    @Test
    void aFolderHasOneUserAndLosesUnfinishedFiles() throws IOException {
        Files.createDirectories(path);
        Path unfinished = path.resolve("step-000000003.safetensors.77.part");
        Files.write(unfinished, new byte[9]);
        Files.write(path.resolve("mine.part"), new byte[9]);
        try (var folder = CheckpointFolder.open(path)) {
            assertFalse(Files.exists(unfinished));
            assertEquals(Set.of("mine.part"), names());
            var e = assertThrows(IOException.class, () -> CheckpointFolder.open(path));
            assertEquals(path + " is in use by another training run", e.getMessage());
        }
        CheckpointFolder.open(path).close();
    }

    /** Opens a checkpoint folder in another process; its exit code is 0 if that succeeds. */
    public static final class OtherProcess {
        public static void main(String[] arguments) throws IOException {
            CheckpointFolder.open(Path.of(arguments[0])).close();
        }
    }

    private boolean isInUseForAnotherProcess() throws Exception {
        return TestJvm.of(OtherProcess.class, path.toString())
                        .redirectErrorStream(true)
                        .start()
                        .waitFor()
                != 0;
    }

    @Test
    void aRefusedSecondUserDoesNotReleaseTheFolder() throws Exception {
        try (var folder = CheckpointFolder.open(path)) {
            save(folder, 1);
            assertThrows(IOException.class, () -> CheckpointFolder.open(path));
            assertTrue(isInUseForAnotherProcess(), "another process could use the folder");
            folder.close();
            try (var next = CheckpointFolder.open(path)) {
                folder.close(); // again
                assertThrows(IOException.class, () -> CheckpointFolder.open(path));
                assertTrue(isInUseForAnotherProcess(), "the second close releases nothing");
            }
        }
        assertFalse(isInUseForAnotherProcess());
    }

    @Test
    void anInterruptDoesNotLoseTheLastCheckpoint() throws IOException {
        var folder = CheckpointFolder.open(path);
        Tensor large = torch.zeros(20_000_000);
        folder.save(after(3), Map.of("w", large), "Sgd", Map.of());
        Thread.currentThread().interrupt();
        folder.close();
        assertTrue(Thread.interrupted(), "the interrupt is kept");
        assertEquals(3, CheckpointFolder.lastStep(path));
    }

    @Test
    void aFailedWriteIsReportedByTheNextCall() throws IOException {
        var folder = CheckpointFolder.open(path);
        Files.delete(path.resolve(".lock"));
        Files.delete(path);
        save(folder, 1);
        var e = assertThrows(IOException.class, () -> save(folder, 2));
        assertTrue(
                e.getMessage().startsWith("checkpoint " + path + "/step-000000001.safetensors could not be written: "),
                e.getMessage());
        Files.createDirectory(path);
        save(folder, 3);
        folder.close();
        assertEquals(Set.of("step-000000003.safetensors"), names());
    }

    @Test
    void aNameThatCannotBeSavedIsReportedByTheNextCall() throws IOException {
        try (var folder = CheckpointFolder.open(path)) {
            folder.save(after(1), Map.of("optimizer.w", torch.ones(3)), "Sgd", Map.of());
            var e = assertThrows(IllegalStateException.class, folder::awaitWritten);
            assertEquals(
                    "the checkpoint could not be written: parameter optimizer.w must not begin with 'optimizer.',"
                            + " as the optimizer's state does",
                    e.getMessage());
        }
    }
}
