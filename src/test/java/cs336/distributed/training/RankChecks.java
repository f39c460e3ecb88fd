package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import cs336.basics.Linear;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.TransformerConfig;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.DynamicTest;

/** Tests of checks that run on several ranks in one launch. */
final class RankChecks {
    private RankChecks() {}

    /** A check on one rank. */
    interface RankCheck {
        void run() throws Exception;
    }

    /**
     * Runs a check on this rank, and waits until it has ended on all ranks.
     *
     * @param wrong receives the failure under the name of the check, or an empty text
     * @throws IllegalStateException if the group cannot be used afterwards
     */
    static void run(String name, RankCheck check, ProcessGroup group, Map<String, String> wrong) {
        wrong.put(name, "");
        try (var scope = MemoryScope.open()) {
            check.run();
        } catch (Exception | AssertionError e) {
            String at = Arrays.stream(e.getStackTrace())
                    .filter(frame -> frame.getClassName().startsWith("cs336"))
                    .limit(4)
                    .toList()
                    .toString();
            wrong.put(name, "rank " + group.rank() + ": " + e + " at " + at + "\n");
            if (group.failure() != null) {
                throw new IllegalStateException(name + ": " + e, e);
            }
        }
        group.barrier();
    }

    /**
     * Runs checks with one thread per rank, and returns a test for each check.
     *
     * @param checks on each rank returns a map from the name of each check to its failure, or to an empty text
     * @param seed for the message of a failed test
     */
    static <A extends Serializable> Stream<DynamicTest> on(
            Launcher launcher,
            Class<? extends RankProgram<A, LinkedHashMap<String, String>>> checks,
            A input,
            long seed)
            throws InterruptedException {
        List<LinkedHashMap<String, String>> ranks = launcher.threads(1).run(checks, input);
        return List.copyOf(ranks.get(0).keySet()).stream()
                .map(name -> dynamicTest(name, () -> {
                    String wrong = String.join(
                            "", ranks.stream().map(rank -> rank.get(name)).toList());
                    assertEquals("", wrong, "seed " + seed);
                }));
    }

    /** @throws AssertionError with this failure, unless the condition holds */
    static void require(boolean holds, String failure) {
        if (!holds) {
            throw new AssertionError(failure);
        }
    }

    /** Checks that each element differs by at most {@code atol} + {@code rtol} times the expected one. */
    static void requireClose(Tensor expected, Tensor found, double rtol, double atol, String what) {
        double[] a = Tensors.toDoubles(expected);
        double[] b = Tensors.toDoubles(found);
        require(
                Arrays.equals(Tensors.shape(expected), Tensors.shape(found)),
                what + " has shape " + Arrays.toString(Tensors.shape(found)));
        for (int i = 0; i < a.length; i++) {
            boolean close = Math.abs(a[i] - b[i]) <= atol + rtol * Math.abs(a[i]);
            if (!close) { // without a message for each element, which takes longer than the comparison
                throw new AssertionError(what + "[" + i + "] is " + b[i] + ", not " + a[i]);
            }
        }
    }

    /** Checks that the gathered parameters are those of a model on a single process. */
    static void requireSame(NnModule alone, FullyShardedDataParallel fsdp, double rtol, double atol, String what) {
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> whole = fsdp.gatherParameters();
            Map<String, Tensor> expected = alone.namedParameters();
            require(whole.keySet().equals(expected.keySet()), "parameters " + whole.keySet());
            expected.forEach((name, tensor) -> requireClose(tensor, whole.get(name), rtol, atol, what + ": " + name));
        }
    }

    /** Checks that a call throws an exception whose message contains a text. */
    static void requireRejected(Runnable call, String expected) {
        try {
            call.run();
        } catch (IllegalStateException | IllegalArgumentException e) {
            require(e.getMessage().contains(expected), "message: " + e.getMessage());
            return;
        }
        throw new AssertionError("no exception; expected: " + expected);
    }

    /** A layer that normalizes with a running mean and counts its passes; all values begin with a given number. */
    static final class WithBuffers extends NnModule {
        private final NnModule fc;
        private final Tensor mean;
        private final Tensor passes;

        WithBuffers(double start, Device device) {
            fc = child("fc", new Linear(3, 3, true, device, DType.FLOAT64));
            mean = buffer("mean", torch.full(new long[] {3}, new Scalar(start), device.options(DType.FLOAT64)));
            passes = buffer("passes", torch.full(new long[0], new Scalar(start), device.options(DType.INT64)));
            Tensor pairs = torch.full(new long[] {1, 2}, new Scalar(start), device.options(DType.FLOAT32));
            buffer("table", torch.view_as_complex(pairs), false);
        }

        @Override
        protected Tensor compute(Tensor x) {
            try (var noGrad = NoGrad.open()) {
                mean.add_(x.detach().mean(0));
                passes.add_(new Scalar(1));
            }
            return fc.forward(x.sub(mean));
        }

        /** Checks the values of the buffers. */
        void require(double expectedMean, long expectedPasses, double expectedTable, String when) {
            Map<String, Double> found = new HashMap<>();
            namedBuffers()
                    .forEach((name, buffer) -> found.put(
                            name, Tensors.toDoubles(buffer.is_complex() ? torch.view_as_real(buffer) : buffer)[0]));
            RankChecks.require(
                    found.equals(
                            Map.of("mean", expectedMean, "passes", (double) expectedPasses, "table", expectedTable)),
                    "buffers " + when + ": " + found);
        }
    }

    /** Returns a model whose steps take milliseconds. */
    static TransformerConfig tinyModel(ModelEdition edition, int layers) {
        return TransformerConfig.builder()
                .edition(edition)
                .vocabSize(17)
                .contextLength(6)
                .dModel(8)
                .numLayers(layers)
                .numHeads(2)
                .dFf(16)
                .normalization("rmsnorm")
                .attention("plain")
                .build();
    }
}
