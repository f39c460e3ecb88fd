package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.MemoryScope;
import cs336.torch.TensorJson;
import java.util.HashMap;
import java.util.Map;
import java.util.function.DoubleUnaryOperator;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Checks the reference vectors against a model written with loops over Java doubles, without a tensor library. */
class ReferenceTest {
    @ParameterizedTest
    @ValueSource(ints = {2025, 2024})
    void logitsAndLossMatchPlainLoops(int year) {
        var model = new PlainModel(Reference.read("tiny-" + year + ".json"));
        double[] expected = model.array("logits");
        double[] logits = new double[expected.length];
        for (int b = 0; b < model.batch; b++) {
            double[][] rows = model.logits(b);
            for (int t = 0; t < model.context; t++) {
                System.arraycopy(rows[t], 0, logits, (b * model.context + t) * model.vocab, model.vocab);
            }
        }
        assertArrayEquals(expected, logits, 1e-13);
        assertEquals(model.array("loss")[0], model.loss(), 1e-14);
    }

    @ParameterizedTest
    @ValueSource(ints = {2025, 2024})
    void gradientsMatchDifferenceQuotientsOfTheLoss(int year) {
        var model = new PlainModel(Reference.read("tiny-" + year + ".json"));
        double h = 1e-4; // balances the error h⁴ of the difference quotient and the rounding error 1e-16 / h
        model.parameters.forEach((name, values) -> {
            double[] quotients = new double[values.length];
            for (int i = 0; i < values.length; i++) {
                double value = values[i];
                double[] loss = new double[4];
                for (int k = 0; k < 4; k++) {
                    values[i] = value + h * new int[] {-2, -1, 1, 2}[k];
                    loss[k] = model.loss();
                }
                values[i] = value;
                quotients[i] = (loss[0] - 8 * loss[1] + 8 * loss[2] - loss[3]) / (12 * h);
            }
            assertArrayEquals(model.gradients.get(name), quotients, 1e-10, name);
        });
    }

    /** The 2024 and 2025 models, one sequence at a time. */
    private static final class PlainModel {
        private final TensorJson reference;
        private final boolean is2025;
        private final int vocab;
        private final int width;
        private final int inner;
        private final int layers;
        private final int heads;
        private final int batch;
        private final int context;
        private final double theta;
        private final double eps;
        private final double[] ids;
        private final double[] targets;
        private final Map<String, double[]> parameters = new HashMap<>();
        private final Map<String, double[]> gradients = new HashMap<>();

        PlainModel(TensorJson reference) {
            this.reference = reference;
            TensorJson config = reference.get("config");
            is2025 = reference.get("form").integer() == 2025;
            vocab = (int) config.get("vocab_size").integer();
            width = (int) config.get("d_model").integer();
            inner = (int) config.get("d_ff").integer();
            layers = (int) config.get("num_layers").integer();
            heads = (int) config.get("num_heads").integer();
            batch = (int) config.get("batch_size").integer();
            context = (int) config.get("context_length").integer();
            theta = config.get("rope_theta").number();
            eps = config.get("norm_eps").number();
            ids = array("ids");
            targets = array("targets");
            try (var scope = MemoryScope.open()) {
                reference.get("parameters").tensors().forEach((name, tensor) -> parameters.put(name, array(tensor)));
                reference.get("gradients").tensors().forEach((name, tensor) -> gradients.put(name, array(tensor)));
            }
        }

        double[] array(String name) {
            try (var scope = MemoryScope.open()) {
                return array(reference.get(name).tensor());
            }
        }

        private static double[] array(Tensor tensor) {
            double[] values = new double[(int) tensor.numel()];
            tensor.to(org.bytedeco.pytorch.global.torch.ScalarType.Double)
                    .data_ptr_double()
                    .get(values);
            return values;
        }

        double loss() {
            double sum = 0;
            for (int b = 0; b < batch; b++) {
                double[][] logits = logits(b);
                for (int t = 0; t < context; t++) {
                    double total = 0;
                    for (double logit : logits[t]) {
                        total += Math.exp(logit);
                    }
                    sum += Math.log(total) - logits[t][(int) targets[b * context + t]];
                }
            }
            return sum / (batch * context);
        }

        double[][] logits(int sequence) {
            double[][] x = new double[context][width];
            for (int t = 0; t < context; t++) {
                int id = (int) ids[sequence * context + t];
                for (int i = 0; i < width; i++) {
                    x[t][i] = parameters.get("token_embeddings.weight")[id * width + i];
                    if (!is2025) {
                        x[t][i] += parameters.get("position_embeddings.weight")[t * width + i];
                    }
                }
            }
            for (int n = 0; n < layers; n++) {
                String layer = "layers." + n + ".";
                addAttention(x, layer);
                for (double[] row : x) {
                    addFeedForward(row, layer);
                }
            }
            double[][] logits = new double[context][];
            for (int t = 0; t < context; t++) {
                logits[t] = linear(norm(x[t], "ln_final"), is2025 ? "lm_head" : "token_embeddings", vocab);
            }
            return logits;
        }

        private void addAttention(double[][] x, String layer) {
            double[][] q = new double[context][];
            double[][] k = new double[context][];
            double[][] v = new double[context][];
            for (int t = 0; t < context; t++) {
                double[] normed = norm(x[t], layer + "ln1");
                q[t] = rotated(linear(normed, layer + "attn.q_proj", width), t);
                k[t] = rotated(linear(normed, layer + "attn.k_proj", width), t);
                v[t] = linear(normed, layer + "attn.v_proj", width);
            }
            int d = width / heads;
            for (int t = 0; t < context; t++) {
                double[] mixed = new double[width];
                for (int from = 0; from < width; from += d) {
                    double total = 0;
                    double[] weights = new double[t + 1];
                    for (int s = 0; s <= t; s++) {
                        double score = 0;
                        for (int i = from; i < from + d; i++) {
                            score += q[t][i] * k[s][i];
                        }
                        weights[s] = Math.exp(score / Math.sqrt(d));
                        total += weights[s];
                    }
                    for (int s = 0; s <= t; s++) {
                        for (int i = from; i < from + d; i++) {
                            mixed[i] += weights[s] / total * v[s][i];
                        }
                    }
                }
                add(x[t], linear(mixed, layer + "attn.output_proj", width));
            }
        }

        private void addFeedForward(double[] x, String layer) {
            double[] normed = norm(x, layer + "ln2");
            double[] up = linear(normed, layer + "ffn.w1", inner);
            double[] gate = is2025 ? linear(normed, layer + "ffn.w3", inner) : null;
            DoubleUnaryOperator silu = z -> z / (1 + Math.exp(-z));
            DoubleUnaryOperator gelu = z -> z * (1 + erf(z / Math.sqrt(2))) / 2;
            for (int i = 0; i < inner; i++) {
                up[i] = is2025 ? silu.applyAsDouble(up[i]) * gate[i] : gelu.applyAsDouble(up[i]);
            }
            add(x, linear(up, layer + "ffn.w2", width));
        }

        /** Rotates the pairs (2i, 2i + 1) of every head by the angle t θ^(−2i/d). */
        private double[] rotated(double[] x, int t) {
            int d = width / heads;
            for (int i = 0; is2025 && i < width; i += 2) {
                double angle = t * Math.pow(theta, -(double) (i % d) / d);
                double real = x[i] * Math.cos(angle) - x[i + 1] * Math.sin(angle);
                x[i + 1] = x[i] * Math.sin(angle) + x[i + 1] * Math.cos(angle);
                x[i] = real;
            }
            return x;
        }

        private double[] norm(double[] x, String name) {
            double[] weight = parameters.get(name + ".weight");
            double squares = 0;
            for (double value : x) {
                squares += value * value;
            }
            double[] out = new double[x.length];
            for (int i = 0; i < x.length; i++) {
                out[i] = x[i] / Math.sqrt(squares / x.length + eps) * weight[i];
            }
            return out;
        }

        private double[] linear(double[] x, String name, int outputs) {
            double[] weight = parameters.get(name + ".weight"); // [outputs, inputs]
            double[] out = new double[outputs];
            for (int o = 0; o < outputs; o++) {
                for (int i = 0; i < x.length; i++) {
                    out[o] += weight[o * x.length + i] * x[i];
                }
            }
            return out;
        }

        private static void add(double[] x, double[] y) {
            for (int i = 0; i < x.length; i++) {
                x[i] += y[i];
            }
        }

        /** The Taylor series of erf, for small arguments. */
        private static double erf(double z) {
            double term = z;
            double sum = z;
            for (int n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
                term *= -z * z / n;
                sum += term / (2 * n + 1);
            }
            return 2 / Math.sqrt(Math.PI) * sum;
        }
    }
}
