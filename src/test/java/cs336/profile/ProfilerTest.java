package cs336.profile;

import static cs336.profile.TraceText.hostTime;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.MemoryGrowth;
import cs336.bench.Pass;
import cs336.bench.TestJvm;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProfilerTest {
    private static final TransformerConfig TINY = TinyConfig.create();

    @TempDir
    private Path folder;

    /** Runs a short GEMM. */
    private static void multiply() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.ones(new long[] {4, 4}, Device.cpu().options(DType.FLOAT32));
            x.matmul(x);
        }
    }

    private static Profile profileOf(ProfilerOptions options, Runnable work) {
        try (var profiler = Profiler.start(options)) {
            work.run();
            return profiler.stop();
        }
    }

    private static Profile profileOf(Runnable work) {
        return profileOf(ProfilerOptions.standard().cpuOnly(), work);
    }

    private static Profile threeSteps() {
        Torch.seed(0);
        try (var model = new TransformerLM(TINY, Device.cpu());
                var step = Benchmark.of(model).batch(2).context(8).step(Pass.STEP)) {
            step.run();
            try (var profiler = Profiler.start(ProfilerOptions.standard().cpuOnly())) {
                for (int i = 0; i < 3; i++) {
                    step.run();
                    profiler.step();
                }
                return profiler.stop();
            }
        }
    }

    /** The main class of a process that exits while a profiler is running. */
    static final class NotStopped {
        public static void main(String[] arguments) {
            Torch.load();
            Profiler.start(ProfilerOptions.standard().cpuOnly());
            multiply();
        }
    }

    @Test
    void aProcessMayExitWhileAProfilerIsRunning() throws Exception {
        Process process = TestJvm.of(NotStopped.class).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
    }

    /** Prints why a recording failed whose file must stay empty, as on a full disk. */
    static final class Recording {
        private static final int RLIMIT_FSIZE = 1; // see setrlimit(2)

        public static void main(String[] arguments) {
            multiply(); // loads the native libraries, which writes files
            try (var limits = new Memory(2 * Long.BYTES)) {
                limits.write(0, new long[2], 0, 2);
                NativeLibrary.getProcess().getFunction("setrlimit").invokeInt(new Object[] {RLIMIT_FSIZE, limits});
            }
            Profiler profiler = Profiler.start(ProfilerOptions.standard().cpuOnly());
            for (int i = 0; i < 100; i++) { // more events than the stream buffers
                multiply();
            }
            var e = assertThrows(UncheckedIOException.class, profiler::stop);
            System.out.print(e.getCause().getMessage());
        }
    }

    @Test
    void aRecordingThatFillsTheDiskLeavesNoFile(@TempDir Path temporary) throws Exception {
        ProcessBuilder recording = TestJvm.of(Recording.class);
        recording.command().add(1, "-Djava.io.tmpdir=" + temporary);
        Process process = recording.redirectErrorStream(true).start();
        String message = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), message);
        assertTrue(message.matches("(?s).*\\.json is incomplete; the disk may be full"), message);
        try (var files = Files.list(temporary)) {
            assertEquals(List.of(), files.toList());
        }
    }

    @Test
    void aTrainingStepShowsItsPhasesItsLayersAndItsOperators() {
        Profile profile = threeSteps();
        assertEquals(3, profile.steps());
        OpTable ops = profile.ops();
        for (String phase :
                List.of("forward", "backward", "optimizer", "loss", "TransformerLM", "layers.1", "lm_head")) {
            assertEquals(3, ops.row(phase).calls(), phase);
        }
        assertEquals(6, ops.row("attention.softmax").calls(), "two layers, three steps");
        assertEquals(3, ops.row("aten::_fused_adamw_").calls());
        assertTrue(profile.trace().ranges().stream()
                .anyMatch(e -> e.range()
                        .equals(List.of("forward", "TransformerLM", "layers.0", "attn", "attention.softmax"))));
        for (HostEvent event : profile.trace().host()) {
            assertTrue(event.step() >= 0, () -> event + " is in no step");
        }
    }

    @Test
    void selfTimesOfAThreadSumToItsSteps() {
        Profile profile = threeSteps();
        long steps = profile.trace().host().stream()
                .filter(HostEvent::isStep)
                .mapToLong(HostEvent::duration)
                .sum();
        assertEquals(steps, hostTime(profile.trace()), "everything ran on one thread, in steps");
        assertEquals(steps, profile.ops().cpuSelf());
        assertEquals(steps, profile.stacks(FoldedStacks.Time.CPU).total());
        assertEquals(
                profile.ops().ranges().filter(r -> r.name().startsWith("ProfilerStep")).rows().stream()
                        .mapToLong(OpTable.OpRow::cpuTotal)
                        .sum(),
                steps);
    }

    @Test
    void backwardOperatorsHaveTheLayerWhoseGradientTheyCompute() {
        Trace trace = threeSteps().trace();
        List<HostEvent> softmax = trace.host().stream()
                .filter(e -> e.name().equals("SoftmaxBackward0"))
                .toList();
        assertEquals(6, softmax.size());
        for (HostEvent node : softmax) {
            assertEquals(List.of("backward"), node.range());
            List<String> forward = node.forward().range();
            assertEquals("attention.softmax", forward.get(forward.size() - 1));
            assertEquals(node.step(), node.forward().step());
        }
        assertEquals(
                3,
                softmax.stream()
                        .filter(e -> e.forward().range().contains("layers.1"))
                        .count());
    }

    private static final class ProfiledSquare extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs[0]);
            return new Tensor[] {inputs[0].square()};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            return new Tensor[] {ctx.saved(0).add(ctx.saved(0)).mul(gradOutputs[0])};
        }
    }

    @Test
    void theBackwardPassOfACustomFunctionHasTheRangeOfItsForwardPass() {
        Profile profile = profileOf(() -> {
            try (var scope = MemoryScope.open()) {
                Tensor x = torch.ones(new long[] {16}, Device.cpu().options(DType.FLOAT32))
                        .set_requires_grad(true);
                Tensor y;
                try (var range = ProfilerRange.of("before")) {
                    y = x.exp();
                }
                try (var range = ProfilerRange.of("square")) {
                    y = new ProfiledSquare().apply(y)[0];
                }
                try (var range = ProfilerRange.of("after")) {
                    y.sum().backward();
                }
            }
        });
        HostEvent node = profile.trace().host().stream()
                .filter(e -> e.name().endsWith("DifferentiableGraphBackward") && !e.isEngine())
                .reduce((rehearsal, last) -> last) // the first use of a function also runs its backward pass once
                .orElseThrow();
        assertNotNull(node.forward());
        assertEquals(List.of("square"), node.forward().range());
        assertEquals(List.of("after"), node.range());
    }

    @Test
    void rangesAndOperatorsOfOtherThreadsAreRecordedThere() {
        Profile profile = profileOf(() -> {
            try (var range = ProfilerRange.of("here")) {
                var other = new Thread(() -> {
                    try (var there = ProfilerRange.of("there")) {
                        multiply();
                    }
                });
                other.start();
                other.join();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        HostEvent matmul = profile.trace().host().stream()
                .filter(e -> e.name().equals("aten::mm"))
                .findFirst()
                .orElseThrow();
        assertEquals(List.of("there"), matmul.range());
        assertEquals(
                2,
                profile.trace().ranges().stream()
                        .map(HostEvent::thread)
                        .distinct()
                        .count());
    }

    @Test
    void namesMayHaveAnyCharacters() {
        Profile profile = profileOf(() -> {
            try (var range = ProfilerRange.of("a \"b\" \\c\n größe")) {
                multiply();
            }
        });
        assertEquals(
                List.of("a 'b' /c  gr??e"),
                profile.trace().ranges().stream().map(HostEvent::name).toList());
    }

    @Test
    void shapesAndMemoryAreRecordedOnRequest() {
        ProfilerOptions plain = ProfilerOptions.standard().cpuOnly();
        Profile detailed = profileOf(plain.withShapes().withMemory(), ProfilerTest::multiply);
        HostEvent matmul = detailed.trace().host().stream()
                .filter(e -> e.name().equals("aten::mm"))
                .findFirst()
                .orElseThrow();
        assertEquals("[[4,4],[4,4]]", matmul.shapes());
        assertEquals(
                2 * 4 * 4 * Float.BYTES,
                detailed.trace().memory().stream()
                        .filter(m -> m.bytes() > 0)
                        .mapToLong(MemoryEvent::bytes)
                        .sum(),
                "x and the result");
        assertEquals(
                0,
                detailed.trace().memory().stream().mapToLong(MemoryEvent::bytes).sum(),
                "and the scope released both");
        Profile brief = profileOf(plain, ProfilerTest::multiply);
        assertEquals(List.of(), brief.trace().memory());
        assertTrue(brief.trace().host().stream().allMatch(e -> e.shapes().isEmpty()));
    }

    @Test
    void withoutOperatorsOnlyRangesAreRecorded() {
        ProfilerOptions few = ProfilerOptions.standard().cpuOnly().withoutOperators();
        Profile profile = profileOf(few, () -> {
            try (var outer = ProfilerRange.of("outer");
                    var inner = ProfilerRange.of("inner")) {
                multiply();
            }
        });
        assertEquals(
                Set.of("ProfilerStep#0", "outer", "inner"),
                profile.trace().host().stream().map(HostEvent::name).collect(Collectors.toSet()));
        assertThrows(IllegalArgumentException.class, few::withShapes);
    }

    @Test
    void aProfileSurvivesWritingAndReading() throws IOException {
        Profile profile = threeSteps();
        Path file = folder.resolve("trace.json.gz");
        profile.write(file);
        Profile again = Profile.read(file);
        assertEquals(profile.ops().rows(), again.ops().rows());
        assertEquals(profile.stacks().toString(), again.stacks().toString());
        assertEquals(profile.toString(), again.toString());
        assertEquals(3, again.steps());
    }

    @Test
    void eventsAfterTheLastStepCallFormAStep() {
        assertEquals(1, profileOf(ProfilerTest::multiply).steps());
        try (var profiler = Profiler.start()) {
            multiply();
            profiler.step();
            multiply();
            assertEquals(2, profiler.stop().steps());
        }
    }

    @Test
    void onlyOneProfilerRunsAtATime() {
        try (var first = Profiler.start()) {
            multiply();
            var e = assertThrows(IllegalStateException.class, Profiler::start);
            assertTrue(e.getMessage().contains("a profiler is already running, started on thread"), e.getMessage());
            assertNotNull(first.stop(), "the first one is still running");
        }
        profileOf(ProfilerTest::multiply); // then another one may start
    }

    @Test
    void aStoppedProfilerRejectsStopAndStep() {
        Profiler profiler = Profiler.start();
        multiply();
        assertTrue(assertThrows(IllegalStateException.class, profiler::profile)
                .getMessage()
                .contains("still running"));
        Profile profile = profiler.stop();
        assertSame(profile, profiler.profile());
        assertTrue(assertThrows(IllegalStateException.class, profiler::stop)
                .getMessage()
                .contains("already stopped"));
        assertTrue(assertThrows(IllegalStateException.class, profiler::step)
                .getMessage()
                .contains("after the profiler was stopped"));
        profiler.close();
        assertSame(profile, profiler.profile());
    }

    @Test
    void closeStopsAndKeepsTheProfile() {
        Profiler profiler;
        try (var closed = Profiler.start()) {
            profiler = closed;
            multiply();
        }
        assertEquals(1, profiler.profile().ops().row("aten::mm").calls());
    }

    @Test
    void onlyTheStartingThreadMayStopAProfiler() throws InterruptedException {
        try (var profiler = Profiler.start()) {
            multiply();
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            var other = new Thread(profiler::stop, "other");
            other.setUncaughtExceptionHandler((t, e) -> thrown.set(e));
            other.start();
            other.join();
            assertTrue(thrown.get() instanceof IllegalStateException, String.valueOf(thrown.get()));
            assertTrue(thrown.get().getMessage().startsWith("stop() must be called on thread"));
            profiler.stop();
        }
    }

    @Test
    void anEmptyRecordingIsAnError() {
        Profiler profiler = Profiler.start();
        var e = assertThrows(IllegalStateException.class, profiler::stop);
        assertTrue(e.getMessage().startsWith("nothing was recorded"), e.getMessage());
        profileOf(ProfilerTest::multiply);
    }

    @Test
    void rangesLeftOpenAreNamedAndClosed() {
        Profiler profiler = Profiler.start();
        ProfilerRange outer = ProfilerRange.of("outer");
        ProfilerRange inner = ProfilerRange.of("inner");
        multiply();
        assertTrue(assertThrows(IllegalStateException.class, profiler::step)
                .getMessage()
                .contains("inside the range 'inner'"));
        var e = assertThrows(IllegalStateException.class, profiler::stop);
        String here = "' on thread " + Thread.currentThread().getName();
        assertTrue(e.getMessage().contains("'inner" + here + ", 'outer" + here), e.getMessage());
        inner.close();
        outer.close();
        assertEquals(List.of(), profileOf(ProfilerTest::multiply).trace().ranges());
    }

    @Test
    void rangesOpenedBeforeTheProfilerAreNotRecorded() {
        try (var before = ProfilerRange.of("before")) {
            Profile profile = profileOf(ProfilerTest::multiply);
            assertEquals(List.of(), profile.trace().ranges());
        }
        assertFalse(ProfilerRange.hasListeners(), "no listener without a profiler");
    }

    @Test
    void cudaOptionsAreRejectedWithoutAGpu() {
        if (Device.cudaCount() > 0) {
            return;
        }
        var e = assertThrows(IllegalArgumentException.class, () -> new ProfilerOptions(true, true, false, false));
        assertTrue(e.getMessage().contains("no CUDA GPU"), e.getMessage());
    }

    static final class ProfiledSteps implements MemoryGrowth.Work {
        @Override
        public void step() {
            try (var profiler =
                    Profiler.start(ProfilerOptions.standard().cpuOnly().withShapes())) {
                for (int i = 0; i < 10; i++) {
                    try (var range = ProfilerRange.of("matmuls")) {
                        for (int j = 0; j < 8; j++) {
                            multiply();
                        }
                    }
                    profiler.step();
                }
                assertEquals(10, profiler.stop().steps());
            }
        }
    }

    @Test
    void aThousandProfiledStepsLeakNoMemory() throws Exception {
        MemoryGrowth.assertFlat(ProfiledSteps.class, 20, 1_000);
    }
}
