package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.bench.AttackCount;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.RandomDamage;
import cs336.profile.PythonMemoryViz;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.razorvine.pickle.Pickler;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MemorySnapshotTest {
    @TempDir
    Path folder;

    private static MemoryRecord step() {
        return step(Precision.FP32);
    }

    private static MemoryRecord step(Precision precision) {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(50)
                .contextLength(16)
                .dModel(16)
                .numLayers(2)
                .numHeads(2)
                .dFf(32)
                .build();
        return PassMemory.of(config, Device.cpu()).batch(2).precision(precision).record(Pass.STEP);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRecordingRestoresTheTf32Setting(boolean allowed) {
        boolean before = Torch.allowsTf32();
        Torch.allowTf32(allowed);
        try {
            step(allowed ? Precision.FP32 : Precision.TF32);
            assertEquals(allowed, Torch.allowsTf32());
        } finally {
            Torch.allowTf32(before);
        }
    }

    @Test
    void aSnapshotSurvivesWritingAndReading() throws IOException {
        MemoryRecord record = step();
        MemoryRecord read = MemorySnapshot.read(record.saveSnapshot(folder.resolve("memory_snapshot.pickle")));
        assertEquals("cpu", read.device());
        assertEquals(record.allocations(), read.allocations());
        assertEquals(record.events(), read.events());
        assertEquals(record.peakBytes(), read.peakBytes());
        assertEquals(record.breakdown(record.peakEvent()), read.breakdown(read.peakEvent()));
        assertEquals(
                List.of("forward", "backward", "optimizer", "forward", "backward"),
                read.phases().stream().map(MemoryPhase::name).toList());
    }

    @Test
    void pythonReadsTheSameFromASnapshot() throws IOException {
        MemoryRecord record = step();
        PythonMemoryViz python = PythonMemoryViz.of(record.saveSnapshot(folder.resolve("memory_snapshot.pickle")));
        assertEquals(record.allocations().size(), python.allocations(), "no block existed before");
        assertEquals(record.peakBytes(), python.peakBytes());
        assertEquals(0, python.segments(), "the CPU has no segments");
    }

    @Test
    void markedBlocksOfTheTimeBeforeTheRecordingSurviveWritingAndReading() throws IOException {
        try (var scope = MemoryScope.open()) {
            Tensor weight = torch.randn(100);
            MemoryRecord record;
            try (var memory = MemoryProfile.start(Device.cpu())) {
                memory.mark(MemoryCategory.PARAMETERS, Map.of("weight", weight));
                weight.mul(weight);
                record = memory.stop();
            }
            MemoryRecord read = MemorySnapshot.read(record.saveSnapshot(folder.resolve("memory_snapshot.pickle")));
            assertEquals(800, record.peakBytes());
            assertEquals(record.peakBytes(), read.peakBytes());
            assertEquals(record.breakdown(record.peakEvent()), read.breakdown(read.peakEvent()));
            assertTrue(read.allocations().stream().anyMatch(a -> a.name().equals("weight")), "the name is kept");
        }
    }

    @Test
    void aSnapshotFromPythonHasItsStacksAndEarlierBlocks() throws IOException {
        var frame = Map.of("filename", "train.py", "line", 7, "name", "forward");
        Path file = write(List.of(
                entry("free_completed", 4096, 512),
                entry("segment_alloc", 8192, 1 << 21),
                with(entry("alloc", 8192, 1024), "frames", List.of(frame)),
                entry("free_requested", 8192, 1024),
                entry("free_completed", 8192, 1024)));
        MemoryRecord record = MemorySnapshot.read(file);
        assertEquals(3, record.events());
        assertEquals(List.of(0L, 1024L, 0L), List.of(record.bytes(0), record.bytes(1), record.bytes(2)));
        assertEquals("before the record", record.allocations().get(0).place());
        assertEquals("train.py:7 forward", record.allocations().get(1).origin());
        assertEquals("cuda:1", record.device());
        MemoryRecord again = MemorySnapshot.read(record.saveSnapshot(folder.resolve("again.pickle")));
        assertEquals("cuda:1", again.device());
        assertEquals(record.peakBytes(), again.peakBytes());
    }

    @Test
    void theErrorNamesABadSnapshotAndItsFlaw() throws IOException {
        Path text = Files.writeString(folder.resolve("text.pickle"), "not a pickle");
        assertTrue(message(text).startsWith(text + " is not a memory snapshot: it is not a pickle"), message(text));
        Path other = Files.write(folder.resolve("other.pickle"), new Pickler().dumps(Map.of("a", 1)));
        assertEquals(other + " is not a memory snapshot: it has no device_traces", message(other));
        Path empty = write(List.of());
        assertEquals(
                empty + " is not a memory snapshot: no GPU has entries; was the allocator history recorded?",
                message(empty));
        Path broken = write(List.of(Map.of("action", "alloc", "addr", 1, "time_us", 1)));
        assertTrue(
                message(broken).startsWith(broken + " is not a memory snapshot: an entry has no number size"),
                message(broken));
        assertThrows(IOException.class, () -> MemorySnapshot.read(folder.resolve("missing.pickle")));
    }

    @Test
    void aLengthBeyondTheEndOfAPickleIsNotAllocated() throws IOException {
        for (String hex : List.of(
                "800258f0ffff7f2e",
                "800254ffffff7f2e",
                "80038bffffff7f",
                "80048dffffffffffffff7f2e",
                "80048effffffffffffffff",
                "80059600000000000001002e",
                "8003420000")) {
            Path file =
                    Files.write(folder.resolve("long.pickle"), HexFormat.of().parseHex(hex));
            assertTrue(message(file).startsWith(file + " is not a memory snapshot: it is not a pickle"), message(file));
        }
    }

    @Test
    void aDamagedSnapshotIsReportedOrHarmless() throws IOException {
        Map<String, Object> frame = Map.of("name", "forward", "filename", "train.py", "line", 7);
        Path file = write(List.of(
                with(entry("alloc", 8192, 1024), "frames", List.of(frame)), entry("free_completed", 8192, 1024)));
        byte[] whole = Files.readAllBytes(file);
        var random = new Random(336);
        int reported = 0;
        int tried = AttackCount.times(3000);
        for (int i = 0; i < tried; i++) {
            byte[] bytes = RandomDamage.of(whole, random);
            Files.write(file, bytes);
            try {
                MemorySnapshot.read(file);
            } catch (IOException e) {
                assertTrue(e.getMessage().startsWith(file + " is not a memory snapshot: "), e.getMessage());
                reported++;
            }
        }
        assertTrue(reported > tried / 3 && reported < tried / 30 * 29, "" + reported);
        AttackCount.inputs(tried, "damaged memory snapshots");
    }

    @Test
    void aCollectionThatContainsItselfIsReported() throws IOException {
        // In pickle's opcodes: {[…]: None}, where the list is its own element.
        byte[] bytes = {'}', ']', 'q', 0, 'h', 0, 'a', 'N', 's', '.'};
        Path file = Files.write(folder.resolve("itself.pickle"), bytes);
        assertEquals(file + " is not a memory snapshot: a collection contains itself", message(file));
    }

    private static String message(Path file) {
        return assertThrows(IOException.class, () -> MemorySnapshot.read(file)).getMessage();
    }

    private Path write(List<Map<String, Object>> entries) throws IOException {
        var snapshot = Map.of("segments", List.of(), "device_traces", List.of(List.of(), entries));
        return Files.write(folder.resolve("python.pickle"), new Pickler().dumps(snapshot));
    }

    private static Map<String, Object> entry(String action, long address, long size) {
        return Map.of("action", action, "addr", address, "size", size, "stream", 0, "time_us", 1L);
    }

    private static Map<String, Object> with(Map<String, Object> entry, String key, Object value) {
        var more = new HashMap<>(entry);
        more.put(key, value);
        return more;
    }

    @Test
    void aTimelineKeepsThePeakAndSurvivesWritingAndReading() throws IOException {
        MemoryRecord record = step();
        for (int points : new int[] {1, 7, 100, 100_000}) {
            MemoryTimeline timeline = record.timeline(0, record.events(), points);
            assertEquals(Math.min(points, record.events()), timeline.points().size());
            assertEquals(record.peakBytes(), timeline.peak().total());
            MemoryTimeline read = MemoryTimeline.read(timeline.write(folder.resolve("timeline.csv")));
            assertEquals(timeline.points(), read.points());
        }
        MemoryTimeline all = record.timeline(0, record.events(), record.events());
        for (MemoryTimeline.MemoryPoint point : all.points()) {
            assertEquals(record.breakdown(point.event()).values().stream().toList(), point.bytes());
        }
        MemoryTimeline read = MemoryTimeline.read(all.write(folder.resolve("all.csv")));
        assertEquals(all.phases(), read.phases());
    }

    @Test
    void phasesMayHaveAnyNames() throws IOException {
        var points = List.of(point(0), point(1), point(2), point(3));
        var phases = List.of(new MemoryPhase("a, 1", 0, 2), new MemoryPhase("b\nc", 2, 4));
        MemoryTimeline read =
                MemoryTimeline.read(new MemoryTimeline(points, phases).write(folder.resolve("names.csv")));
        assertEquals(points, read.points());
        assertEquals(List.of(new MemoryPhase("a, 1", 0, 2), new MemoryPhase("b c", 2, 4)), read.phases());
    }

    private static MemoryTimeline.MemoryPoint point(int event) {
        return new MemoryTimeline.MemoryPoint(event, Collections.nCopies(MemoryCategory.values().length, (long) event));
    }

    @Test
    void theErrorNamesABadTimeline() throws IOException {
        Path file = Files.writeString(folder.resolve("timeline.csv"), "a,b\n1,2\n");
        assertTrue(assertThrows(IOException.class, () -> MemoryTimeline.read(file))
                .getMessage()
                .startsWith(file + " is not a memory timeline"));
        var lines = new ArrayList<>(
                List.of(Files.readString(step().timeline(0, 10, 10).write(folder.resolve("good.csv")))
                        .split("\n")));
        lines.set(3, "x,,1,2,3,4,5,6");
        Path broken = Files.write(folder.resolve("broken.csv"), lines);
        assertEquals(
                broken + ", line 4 is not a point of a memory timeline",
                assertThrows(IOException.class, () -> MemoryTimeline.read(broken))
                        .getMessage());
        assertThrows(IllegalArgumentException.class, () -> step().timeline(0, 0, 1));
    }
}
