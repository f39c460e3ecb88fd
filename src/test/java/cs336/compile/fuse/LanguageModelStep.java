package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** The loss and all gradients of a small language model, as a function of token ids and targets. */
final class LanguageModelStep implements TensorFunction, AutoCloseable {
    private static final int BATCH = 3;

    private final TransformerLM model;
    private final TransformerConfig config;
    private final Precision precision;
    private final Device device;

    LanguageModelStep(TransformerConfig config, Precision precision, Device device) {
        this(config, precision, device, DType.FLOAT32);
    }

    LanguageModelStep(TransformerConfig config, Precision precision, Device device, DType parameters) {
        Torch.seed(1);
        this.config = config;
        this.precision = precision;
        this.device = device;
        model = new TransformerLM(config, device, parameters);
    }

    /** Returns the configurations of a size: both editions, all norms, and attention with and without a kernel. */
    static Stream<TransformerConfig> configs(int vocabulary, int context, int dModel, int dFf) {
        List<TransformerConfig> configs = new ArrayList<>();
        for (ModelEdition edition : ModelEdition.values()) {
            for (String norm : List.of("rmsnorm", "layernorm", "rmsnorm-fused")) {
                for (String attention : List.of("plain", "sdpa", "flash-deterministic")) {
                    configs.add(TransformerConfig.builder()
                            .edition(edition)
                            .vocabSize(vocabulary)
                            .contextLength(context)
                            .dModel(dModel)
                            .numLayers(2)
                            .numHeads(2)
                            .dFf(dFf)
                            .normalization(norm)
                            .attention(attention)
                            .build());
                }
            }
        }
        return configs.stream();
    }

    /** Returns random token ids and targets. */
    Tensor[] batch() {
        long[] shape = {BATCH, config.contextLength()};
        return new Tensor[] {
            torch.randint(config.vocabSize(), shape, device.options(DType.INT64)),
            torch.randint(config.vocabSize(), shape, device.options(DType.INT64))
        };
    }

    /** Returns the loss, then the gradient of each parameter. */
    @Override
    public Tensor[] apply(Tensor... batch) {
        try (var scope = MemoryScope.open()) {
            Tensor loss;
            try (var autocast = precision.autocast(device)) {
                loss = Losses.crossEntropy(model.forward(batch[0]), batch[1]);
            }
            Tensor[] gradients = Backward.of(loss).gradients(model.parameters().toArray(new Tensor[0]));
            List<Tensor> results = new ArrayList<>(List.of(scope.escape(loss.detach())));
            for (Tensor gradient : gradients) {
                results.add(scope.escape(gradient));
            }
            return results.toArray(new Tensor[0]);
        }
    }

    Program record() {
        try (var scope = MemoryScope.open()) {
            Tensor[] batch = batch();
            // Libraries and caches are initialized before the recording; one sequence is enough.
            apply(batch[0].narrow(0, 0, 1), batch[1].narrow(0, 0, 1));
            return Recorder.run(this, model.namedParameters(), batch()).program();
        }
    }

    /**
     * Compares results of a changed step in bf16 and those of the plain step in bf16 with results in fp32. Plain
     * attention rounds scores, probabilities and their gradients to bf16; FlashAttention does not. Merged matrix
     * multiplications round a sum once that the step rounds at each term.
     */
    static void assertNoLessAccurate(Tensor[] exact, Tensor[] plain, Tensor[] got, String what) {
        assertEquals(exact.length, got.length, what + ", number of outputs");
        for (int i = 0; i < got.length; i++) {
            double ofPlain = relativeError(exact[i], plain[i]);
            double error = relativeError(exact[i], got[i]);
            assertTrue(error <= 1.5 * ofPlain + 4e-3, what + ", output " + i + ": " + error + ", plain " + ofPlain);
        }
    }

    /** Returns the norm of a tensor's error divided by the norm of the expected tensor. */
    static double relativeError(Tensor expected, Tensor got) {
        assertArrayEquals(Tensors.shape(expected), Tensors.shape(got));
        return got.sub(expected).norm().item_double() / expected.norm().item_double();
    }

    /** Returns an optimizer that stores rounded parameters and reads narrow gradients. */
    MasterWeights masterWeights() {
        return new MasterWeights() {
            @Override
            public List<Tensor> copies(List<String> names, DType dtype) {
                List<Tensor> found =
                        names.stream().map(model.namedParameters()::get).toList();
                if (found.contains(null)) {
                    return null;
                }
                Tensor all = torch.cat(new TensorVector(found.stream()
                        .map(parameter -> parameter.detach().to(dtype.scalarType()))
                        .toArray(Tensor[]::new)));
                List<Tensor> copies = new ArrayList<>();
                long start = 0;
                for (Tensor parameter : found) {
                    copies.add(all.narrow(0, start, parameter.size(0)));
                    start += parameter.size(0);
                }
                return copies;
            }

            @Override
            public boolean readsNarrowGradients() {
                return true;
            }
        };
    }

    @Override
    public void close() {
        model.close();
    }
}
