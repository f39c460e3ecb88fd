package cs336.precision;

import cs336.basics.Batches;
import cs336.basics.GradScaler;
import cs336.basics.Losses;
import cs336.basics.TransformerLM;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The underflow and the error of a language model's gradients under autocast, compared with the same model and batch in
 * fp32.
 *
 * @param lost the fraction of the nonzero elements of the logits' fp32 gradient that are zero under autocast
 * @param error the relative error ‖g − g_fp32‖ ÷ ‖g_fp32‖ of the gradients of all parameters, as one vector
 */
public record GradientUnderflow(double lost, double error) {
    private static final long SEED = 0;

    private record LossGradients(Tensor logits, Tensor parameters) {}

    /**
     * Compares the gradients on one batch of random tokens. Frees the model's gradients before and after each of the
     * two passes.
     *
     * @param model a model with fp32 parameters
     * @param batch the number of sequences
     * @param context the tokens per sequence
     * @param autocast the autocast dtype
     * @param scaler the loss scaler of the pass under autocast
     */
    public static GradientUnderflow of(TransformerLM model, int batch, int context, DType autocast, GradScaler scaler) {
        try (var scope = MemoryScope.open();
                var noScaling = GradScaler.disabled()) {
            Batches.Batch data = Batches.random(model.config().vocabSize(), batch, context, model.device(), SEED)
                    .next();
            LossGradients exact = gradients(model, data, DType.FLOAT32, noScaling);
            LossGradients narrow = gradients(model, data, autocast, scaler);
            var zero = new Scalar(0);
            Tensor nonZero = exact.logits.ne(zero);
            double lost = narrow.logits.eq(zero).logical_and(nonZero).sum().item_double()
                    / nonZero.sum().item_double();
            Tensor difference = narrow.parameters.sub(exact.parameters);
            double error =
                    difference.norm().item_double() / exact.parameters.norm().item_double();
            return new GradientUnderflow(lost, error);
        }
    }

    private static LossGradients gradients(TransformerLM model, Batches.Batch data, DType autocast, GradScaler scaler) {
        model.zeroGrad();
        try (var scope = MemoryScope.open()) {
            Tensor logits;
            Tensor loss;
            try (var precision = Autocast.of(model.device(), autocast)) {
                logits = model.forward(data.inputs());
                logits.retain_grad();
                loss = Losses.crossEntropy(logits, data.targets());
            }
            scaler.scale(loss).backward();
            List<Tensor> all = new ArrayList<>();
            for (Tensor parameter : model.parameters()) {
                all.add(parameter.grad().flatten());
                parameter.mutable_grad().reset();
            }
            Tensor parameters = torch.cat(new TensorVector(all.toArray(new Tensor[0])));
            parameters.div_(new Scalar(scaler.scale()));
            var logitsGradient = new Tensor(logits.grad()); // the grad field itself is freed with the logits
            return new LossGradients(scope.escape(logitsGradient), scope.escape(parameters));
        }
    }
}
