package cs336.compile.fuse;

import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.torch.Device;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The passes over a recorded program, in their order. */
public final class FusionPasses {
    private FusionPasses() {}

    /** Returns a program that computes bit for bit the same with fewer operations. */
    public static Program simplify(Program recorded) {
        return Simplification.of(recorded);
    }

    /** Returns the program with plain attention replaced by FlashAttention where a kernel of the device supports it. */
    public static Program fuseAttention(Program recorded, Device device) {
        return AttentionFusion.of(recorded, device);
    }

    /** Returns a program of pointwise operations, reductions and calls of other operators, before they are fused. */
    public static Program prepare(Program recorded, Device device) {
        return Simplification.of(Lowering.of(recorded, device));
    }

    /**
     * Returns a prepared program whose pointwise operations and reductions are generated kernels, and whose large fp32
     * matrix multiplications run on tensor cores where that is faster.
     */
    static Program fusePrepared(Program prepared, Device device) {
        return Fp32Gemms.of(Simplification.withoutDeadOperations(Fusion.of(prepared, device)), device);
    }

    private static Program withFewerGemms(Program prepared, Device device) {
        return GemmMerging.of(LinearGemms.of(prepared, device));
    }

    /** Returns the program with generated kernels in place of its pointwise operations and reductions. */
    public static Program fuse(Program recorded, Device device) {
        return fuse(recorded, device, MasterWeights.NONE);
    }

    /**
     * Returns the fused program of a training step that leaves casts to its optimizer. Its outputs may have a dtype of
     * lower precision than those of the recorded program.
     */
    public static Program fuse(Program recorded, Device device, MasterWeights weights) {
        Program fused = fusePrepared(withFewerGemms(prepare(recorded, device, weights), device), device);
        if (device.isCuda()) {
            writeSources(fused);
        }
        return fused;
    }

    /**
     * Writes the sources of all kernels, on all cores: the first run of the program needs each of them. The layers of a
     * model have equal kernels, whose source is written once.
     */
    private static void writeSources(Program fused) {
        fused.operations().stream()
                .map(Operation::operator)
                .filter(FusedKernel.class::isInstance)
                .map(FusedKernel.class::cast)
                .collect(Collectors.groupingBy(FusedKernel::structure))
                .values()
                .parallelStream()
                .forEach(equal -> equal.forEach(kernel -> kernel.emitLike(equal.get(0))));
    }

    /** Returns a prepared program that leaves casts to an optimizer. */
    static Program prepare(Program recorded, Device device, MasterWeights weights) {
        Program prepared = Simplification.withStoredCasts(prepare(recorded, device), weights);
        return weights.readsNarrowGradients() ? Simplification.withNarrowOutputs(prepared) : prepared;
    }

    /**
     * Returns the program after each pass, by the pass's name: {@code recorded}, {@code attention}, {@code lowered},
     * {@code simplified}, {@code merged} and {@code fused}. Each of them can run.
     */
    public static Map<String, Program> stages(Program recorded, Device device) {
        Map<String, Program> stages = new LinkedHashMap<>();
        stages.put("recorded", recorded);
        Program attention = fuseAttention(recorded, device);
        stages.put("attention", attention);
        Program lowered = Lowering.of(attention, device);
        stages.put("lowered", lowered);
        Program simplified = Simplification.of(lowered);
        stages.put("simplified", simplified);
        Program merged = withFewerGemms(simplified, device);
        stages.put("merged", merged);
        stages.put("fused", fusePrepared(merged, device));
        return stages;
    }

    /** Returns the generated kernels of a fused program, in the order of execution. */
    public static List<GeneratedKernel> kernels(Program fused) {
        writeSources(fused);
        List<GeneratedKernel> kernels = new ArrayList<>();
        for (Operation operation : fused.operations()) {
            if (operation.operator() instanceof FusedKernel kernel) {
                List<Operation> members = kernel.group().members();
                long separately =
                        members.stream().mapToLong(Operation::bytesMoved).sum();
                String name = operation.output().toString();
                String source = kernel.emitted().source();
                kernels.add(new GeneratedKernel(name, source, members.size(), separately, operation.bytesMoved()));
            }
        }
        return kernels;
    }
}
