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
 * What a narrow type does to a language model's gradients, compared with those of the same model and batch in fp32.
 *
 * @param lost share of the elements of the logits' gradient that are zero in the narrow type but not in fp32
 * @param error length of the error of all parameters' gradients, taken as one vector, over the length of that in fp32
 */
public record GradientUnderflow(double lost, double error) {
    private static final long SEED = 0;

    private record LossGradients(Tensor logits, Tensor parameters) {}

    /**
     * Compares the gradients of one batch of random tokens.
     *
     * @param autocast the narrow type
     * @param scaler scales the loss in the narrow type
     */
    public static GradientUnderflow of(TransformerLM model, int batch, int context, DType autocast, GradScaler scaler) {
        try (var scope = MemoryScope.open();
                var unscaled = GradScaler.disabled()) {
            Batches.Batch data = Batches.random(model.config().vocabSize(), batch, context, model.device(), SEED)
                    .next();
            LossGradients exact = gradients(model, data, DType.FLOAT32, unscaled);
            LossGradients narrow = gradients(model, data, autocast, scaler);
            Scalar zero = new Scalar(0);
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
        try (var scope = MemoryScope.open()) {
            Tensor logits;
            Tensor loss;
            try (var narrow = Autocast.of(model.device(), autocast)) {
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
            Tensor ofLogits = new Tensor(logits.grad()); // a handle of our own: theirs goes with the logits
            return new LossGradients(scope.escape(ofLogits), scope.escape(parameters));
        }
    }
}
