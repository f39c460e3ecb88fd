package cs336.scaling.laws;

/**
 * A model of the loss of N parameters after training on D tokens, L = E + A / N^α + B / D^β (Hoffmann et al., "Training
 * Compute-Optimal Large Language Models", 2022, section 3.3).
 *
 * @param irreducible E in nats per token: the loss of an infinite model on infinite data, the entropy of text
 * @param a A, the loss in nats due to the finite model, at one parameter
 * @param alpha α, the exponent with which this loss falls with the number of parameters
 * @param b B, the loss in nats due to the finite data, at one token
 * @param beta β, the exponent with which this loss falls with the number of tokens
 */
public record LossSurface(double irreducible, double a, double alpha, double b, double beta) {
    /** @throws IllegalArgumentException if a number is not positive, because there would be no optimal size */
    public LossSurface {
        if (!(irreducible > 0 && a > 0 && alpha > 0 && b > 0 && beta > 0)) {
            throw new IllegalArgumentException("E, A, α, B and β must be above 0, not %s, %s, %s, %s, %s"
                    .formatted(irreducible, a, alpha, b, beta));
        }
    }

    /**
     * Returns the loss in nats per token. It is computed with {@link StrictMath}, so it is reproducible to the last
     * bit.
     */
    public double loss(double parameters, double tokens) {
        return irreducible + a / StrictMath.pow(parameters, alpha) + b / StrictMath.pow(tokens, beta);
    }

    /**
     * Returns the law of the compute-optimal size under C = 6·N·D. The derivative of L(N, C / (6·N)) is 0 at N = G·(C /
     * 6)^(β / (α + β)) with G = (α·A / (β·B))^(1 / (α + β)).
     */
    public PowerLaw law() {
        double exponent = beta / (alpha + beta);
        double g = Math.pow(alpha * a / (beta * b), 1 / (alpha + beta));
        return new PowerLaw(g * Math.pow(TrainingRun.FLOP_PER_PARAMETER_AND_TOKEN, -exponent), exponent);
    }
}
