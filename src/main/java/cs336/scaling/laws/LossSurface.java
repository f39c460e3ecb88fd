package cs336.scaling.laws;

/**
 * The loss of a model of N parameters after D tokens, L = E + A / N^α + B / D^β (Hoffmann et al., "Training
 * Compute-Optimal Large Language Models", 2022, section 3.3).
 *
 * @param irreducible E, the loss that no size and no amount of data removes: the entropy of text, in nats
 * @param a what a finite model costs, in nats at one parameter
 * @param alpha how fast that falls with the size
 * @param b what finite data cost, in nats at one token
 * @param beta how fast that falls with the data
 */
public record LossSurface(double irreducible, double a, double alpha, double b, double beta) {
    /** @throws IllegalArgumentException if a number is not positive; without that there is no optimum */
    public LossSurface {
        if (!(irreducible > 0 && a > 0 && alpha > 0 && b > 0 && beta > 0)) {
            throw new IllegalArgumentException("a loss surface needs numbers above 0, not E %s, A %s, α %s, B %s, β %s"
                    .formatted(irreducible, a, alpha, b, beta));
        }
    }

    /** The loss, in nats a token. By {@link StrictMath}, so that it is the same number everywhere. */
    public double loss(double parameters, double tokens) {
        return irreducible + a / StrictMath.pow(parameters, alpha) + b / StrictMath.pow(tokens, beta);
    }

    /**
     * The sizes of least loss under C = 6·N·D. Setting the derivative of L(N, C / (6·N)) to 0 gives N = G·(C / 6)^(β /
     * (α + β)) with G = (α·A / (β·B))^(1 / (α + β)).
     */
    public PowerLaw law() {
        double exponent = beta / (alpha + beta);
        double g = Math.pow(alpha * a / (beta * b), 1 / (alpha + beta));
        return new PowerLaw(g * Math.pow(TrainingRun.FLOP_PER_PARAMETER_AND_TOKEN, -exponent), exponent);
    }
}
