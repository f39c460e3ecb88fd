package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.bench.Precision;
import cs336.checkpointing.BlockBytes;
import cs336.checkpointing.CheckpointPolicy;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Recorded training steps of models with activation checkpointing. */
class RecomputedStepTest {
    private static final int BLOCKS = 8;

    private static TransformerConfig config(CheckpointPolicy policy) {
        return TransformerConfig.builder()
                .vocabSize(20)
                .contextLength(64)
                .dModel(16)
                .numLayers(BLOCKS)
                .numHeads(2)
                .dFf(48)
                .normalization("rmsnorm")
                .attention("sdpa")
                .build()
                .withCheckpointing(policy);
    }

    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16"})
    void aPolicyStatesWhatARecordedStepKeeps(Precision precision) {
        var block = new BlockBytes(1000, 600, 100, 300, 200);
        Map<String, CheckpointPolicy> policies = new LinkedHashMap<>();
        policies.put("everything", CheckpointPolicy.everything());
        policies.put("ffn-4", CheckpointPolicy.feedForwards(4));
        policies.put("all-but-ffn", CheckpointPolicy.allButFeedForward());
        policies.put("budget", CheckpointPolicy.budget(3000, block));
        policies.put("blocks-2", CheckpointPolicy.blocks(2));
        policies.put("nothing", CheckpointPolicy.nothing());
        policies.put("elementwise", CheckpointPolicy.elementwise(0));
        Map<String, Long> recorded = new HashMap<>();
        Map<String, Long> simplified = new HashMap<>();
        Map<String, Long> fused = new HashMap<>();
        policies.forEach((name, policy) -> {
            try (var step = new LanguageModelStep(config(policy), precision, Device.cpu())) {
                Program program = step.record();
                recorded.put(name, peakBytes(program));
                simplified.put(name, peakBytes(FusionPasses.simplify(program)));
                fused.put(name, peakBytes(FusionPasses.fuse(program, Device.cpu())));
            }
        });
        List<String> names = List.of("everything", "ffn-4", "all-but-ffn", "budget", "blocks-2", "nothing");
        for (Map<String, Long> peaks : List.of(recorded, simplified, fused)) {
            for (int i = 1; i < names.size(); i++) {
                assertTrue(peaks.get(names.get(i)) < peaks.get(names.get(i - 1)), names.get(i) + " of " + peaks);
            }
            assertTrue(peaks.get("nothing") < peaks.get("everything") / 2, peaks.toString());
            assertTrue(peaks.get("elementwise") < peaks.get("everything") * 0.9, peaks.toString());
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16"})
    void resultsAreThoseOfAStepThatKeepsEverything(Precision precision) {
        for (CheckpointPolicy policy : List.of(
                CheckpointPolicy.nothing(),
                CheckpointPolicy.recursive(),
                CheckpointPolicy.allButFeedForward(),
                CheckpointPolicy.elementwise(2))) {
            try (var scope = MemoryScope.open();
                    var plain = new LanguageModelStep(config(CheckpointPolicy.everything()), precision, Device.cpu());
                    var recomputed = new LanguageModelStep(config(policy), precision, Device.cpu())) {
                Program program = recomputed.record();
                Torch.seed(System.nanoTime());
                Tensor[] batch = plain.batch();
                Tensor[] kept = plain.apply(batch);
                Tensor[] expected = recomputed.apply(batch); // sums some gradients in another order
                Tensor[] replayed = new Interpreter(FusionPasses.simplify(program)).run(batch);
                Tensor[] fused = new Interpreter(FusionPasses.fuse(program, Device.cpu())).run(batch);
                for (int i = 0; i < kept.length; i++) {
                    assertTrue(torch.equal(expected[i], replayed[i]), policy + ", output " + i);
                }
                Map<String, Tensor[]> steps = Map.of(policy.toString(), expected, "fused " + policy, fused);
                if (precision == Precision.BF16) {
                    Tensor[] exact = inFp32(batch);
                    steps.forEach((name, got) -> LanguageModelStep.assertNoLessAccurate(exact, kept, got, name));
                } else {
                    steps.forEach((name, got) -> assertAgrees(kept, got, name));
                }
            }
        }
    }

    private static Tensor[] inFp32(Tensor[] batch) {
        try (var step = new LanguageModelStep(config(CheckpointPolicy.everything()), Precision.FP32, Device.cpu())) {
            return step.apply(batch);
        }
    }

    private static void assertAgrees(Tensor[] expected, Tensor[] got, String what) {
        for (int i = 0; i < expected.length; i++) {
            assertEquals(0, LanguageModelStep.relativeError(expected[i], got[i]), 5e-6, what + ", output " + i);
        }
    }

    /** Returns the most bytes that the values of a program occupy at once, if each is freed after its last use. */
    private static long peakBytes(Program program) {
        Map<ProgramValue, Integer> lastUse = new HashMap<>();
        List<Operation> operations = program.operations();
        for (int i = 0; i < operations.size(); i++) {
            for (View view : operations.get(i).reads()) {
                lastUse.put(view.value().root(), i);
            }
            for (ProgramValue created : operations.get(i).creates()) {
                lastUse.put(created.root(), i);
            }
        }
        program.outside().forEach(lastUse::remove);
        program.outputs().stream()
                .filter(Objects::nonNull)
                .forEach(view -> lastUse.put(view.value().root(), operations.size()));
        long live = 0;
        long peak = 0;
        Map<Integer, Long> freedAfter = new HashMap<>();
        for (int i = 0; i < operations.size(); i++) {
            for (ProgramValue created : operations.get(i).creates()) {
                Integer last = lastUse.get(created);
                if (created.root() == created && last != null) {
                    live += created.layout().bytes();
                    freedAfter.merge(last, created.layout().bytes(), Long::sum);
                }
            }
            peak = Math.max(peak, live);
            live -= freedAfter.getOrDefault(i, 0L);
        }
        return peak;
    }
}
