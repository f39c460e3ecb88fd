package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import cs336.profile.Profiler;
import cs336.profile.ProfilerOptions;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class MemoryProfileTest {
    private static final Device CPU = Device.cpu();

    private static Tensor floats(long n) {
        return torch.empty(new long[] {n}, CPU.options(DType.FLOAT32), new org.bytedeco.pytorch.MemoryFormatOptional());
    }

    @Test
    void everyBlockIsRecordedFromItsAllocationToItsRelease() {
        try (var memory = MemoryProfile.start(CPU);
                var scope = MemoryScope.open()) {
            Tensor a = floats(1000);
            Tensor b = floats(500);
            a.close();
            floats(250);
            MemoryRecord record = memory.stop();
            assertEquals(4, record.events());
            assertEquals(
                    List.of(4000L, 2000L, 1000L),
                    record.allocations().stream().map(Allocation::bytes).toList());
            assertEquals(
                    List.of(4000L, 6000L, 2000L, 3000L),
                    List.of(record.bytes(0), record.bytes(1), record.bytes(2), record.bytes(3)));
            assertEquals(6000, record.peakBytes());
            assertEquals(1, record.peakEvent());
            assertEquals(2, record.allocations().get(0).until());
            assertEquals(4, record.allocations().get(1).until(), "never freed");
            assertEquals(
                    b.storage().data().address(), record.allocations().get(1).address());
        }
    }

    @Test
    void phaseAndPlaceAreTheRangesAndTheLifetimeDecidesTheCategory() {
        try (var memory = MemoryProfile.start(CPU);
                var scope = MemoryScope.open()) {
            Tensor outside = floats(10);
            Tensor kept;
            try (var phase = ProfilerRange.of("forward");
                    var place = ProfilerRange.of("layer")) {
                try (var inner = ProfilerRange.of("softmax")) {
                    kept = floats(20);
                }
                floats(30).close();
                floats(40); // never freed
            }
            try (var phase = ProfilerRange.of("backward")) {
                floats(50).close();
                kept.close();
            }
            MemoryRecord record = memory.stop();
            List<Allocation> blocks = record.allocations();
            assertEquals(
                    List.of("", "layer/softmax", "layer", "layer", "backward of layer/softmax"),
                    blocks.stream().map(Allocation::place).toList());
            assertEquals(
                    List.of(
                            MemoryCategory.OTHER,
                            MemoryCategory.ACTIVATIONS,
                            MemoryCategory.WORKSPACE,
                            MemoryCategory.WORKSPACE,
                            MemoryCategory.WORKSPACE),
                    blocks.stream().map(Allocation::category).toList());
            assertEquals(
                    List.of("forward", "backward"),
                    record.phases().stream().map(MemoryPhase::name).toList());
            assertEquals(1, record.phase("forward", 0).from());
            assertEquals(5, record.phase("backward", 0).from());
            assertEquals("forward: layer/softmax", blocks.get(1).origin());
            outside.close();
        }
    }

    @Test
    void theBreakdownSumsToTheBytesInUseAtEveryEvent() {
        try (var memory = MemoryProfile.start(CPU);
                var scope = MemoryScope.open()) {
            Tensor x = torch.randn(new long[] {64, 64}).set_requires_grad(true);
            memory.mark(MemoryCategory.PARAMETERS, Map.of("x", x));
            Tensor y;
            try (var phase = ProfilerRange.of("forward");
                    var inner = MemoryScope.open()) {
                y = inner.escape(torch.softmax(x.matmul(x), -1).sum());
            }
            try (var phase = ProfilerRange.of("backward")) {
                y.backward();
            }
            memory.markGradients(Map.of("x", x));
            MemoryRecord record = memory.stop();
            for (int event = 0; event < record.events(); event++) {
                long sum = record.breakdown(event).values().stream()
                        .mapToLong(Long::longValue)
                        .sum();
                assertEquals(record.bytes(event), sum);
            }
            Map<MemoryCategory, Long> end = record.breakdown(record.events() - 1);
            assertEquals(64 * 64 * 4, end.get(MemoryCategory.PARAMETERS));
            assertEquals(64 * 64 * 4, end.get(MemoryCategory.GRADIENTS));
            assertEquals(
                    64 * 64 * 4,
                    record.breakdown(record.phase("forward", 0).until() - 1).get(MemoryCategory.ACTIVATIONS),
                    "the graph saves only the output of the softmax");
        }
    }

    @Test
    void earlierTensorsCountIfMarked() {
        try (var scope = MemoryScope.open()) {
            Tensor x = floats(100);
            try (var memory = MemoryProfile.start(CPU)) {
                memory.mark(MemoryCategory.PARAMETERS, Map.of("x", x));
                floats(1);
                MemoryRecord record = memory.stop();
                assertEquals(404, record.peakBytes());
                assertEquals(Allocation.BEFORE, record.allocations().get(0).from());
                assertEquals("x", record.allocations().get(0).origin());
            }
        }
    }

    @Test
    void oneRecordingAtATimeStoppedOnceOnItsThreadWithAllRangesClosed() throws InterruptedException {
        try (var memory = MemoryProfile.start(CPU)) {
            String second = assertThrows(IllegalStateException.class, () -> MemoryProfile.start(CPU))
                    .getMessage();
            assertEquals("memory is already being recorded; stop that recording first", second);
            try (var phase = ProfilerRange.of("forward")) {
                String open =
                        assertThrows(IllegalStateException.class, memory::stop).getMessage();
                assertEquals("the range forward is still open; close it before stop()", open);
            }
            var other = new AtomicReference<Exception>();
            var thread = new Thread(() -> other.set(assertThrows(IllegalStateException.class, memory::stop)));
            thread.start();
            thread.join();
            assertTrue(other.get()
                    .getMessage()
                    .startsWith("a memory recording must be stopped on the thread that started it"));
            assertEquals(0, memory.stop().peakBytes(), "an empty recording has no peak");
            String twice =
                    assertThrows(IllegalStateException.class, memory::stop).getMessage();
            assertEquals("this memory recording is already stopped", twice);
            assertThrows(IllegalStateException.class, () -> memory.mark(MemoryCategory.OTHER, Map.of()));
        }
        MemoryProfile.start(CPU).close(); // the next one can start
    }

    @Test
    void aProfilerMustStartBeforeAMemoryRecording() {
        try (var memory = MemoryProfile.start(CPU)) {
            assertEquals(
                    "memory is being recorded; stop that recording first, or start it after the profiler",
                    assertThrows(IllegalStateException.class, Profiler::start).getMessage());
        }
        try (var profiler = Profiler.start();
                var memory = MemoryProfile.start(CPU);
                var scope = MemoryScope.open()) {
            floats(1000);
            assertEquals(4000, memory.stop().peakBytes());
            profiler.stop();
        }
        var withMemory = ProfilerOptions.standard().withMemory();
        try (var profiler = Profiler.start(withMemory);
                var scope = MemoryScope.open()) {
            assertThrows(IllegalStateException.class, () -> MemoryProfile.start(CPU));
            floats(1000);
            profiler.stop();
        }
    }

    @Test
    void otherThreadsAreNotRecorded() throws InterruptedException {
        try (var memory = MemoryProfile.start(CPU)) {
            var thread = new Thread(() -> {
                try (var scope = MemoryScope.open();
                        var range = ProfilerRange.of("elsewhere")) {
                    floats(1000);
                }
            });
            thread.start();
            thread.join();
            MemoryRecord record = memory.stop();
            assertEquals(0, record.events());
            assertEquals(List.of(), record.phases());
        }
    }

    @Test
    void errorsNameAMissingCategoryAnEmptyIntervalAndAnUnknownPhase() {
        try (var memory = MemoryProfile.start(CPU)) {
            assertEquals(
                    "category must not be null",
                    assertThrows(NullPointerException.class, () -> memory.mark(null, Map.of()))
                            .getMessage());
            MemoryRecord record = memory.stop();
            assertEquals(
                    "rows must be at least 0, not -1",
                    assertThrows(IllegalArgumentException.class, () -> record.largest(0, 0, -1))
                            .getMessage());
            assertEquals(
                    "from 0 and until 0 must enclose an event; the recording has 0",
                    assertThrows(IllegalArgumentException.class, record::peakEvent)
                            .getMessage());
            assertEquals(
                    "no phase forward number 0; recorded: []",
                    assertThrows(IllegalArgumentException.class, () -> record.phase("forward", 0))
                            .getMessage());
        }
    }

    static final class RepeatedRecording implements MemoryGrowth.Work {
        @Override
        public void step() {
            try (var memory = MemoryProfile.start(CPU);
                    var scope = MemoryScope.open();
                    var phase = ProfilerRange.of("forward")) {
                Tensor x = torch.randn(new long[] {32, 32}).set_requires_grad(true);
                x.matmul(x).sum().backward();
                phase.close();
                memory.stop();
            }
        }
    }

    @Test
    void aThousandRecordingsLeakNoMemory() throws Exception {
        MemoryGrowth.assertFlat(RepeatedRecording.class, 125, 150);
    }
}
