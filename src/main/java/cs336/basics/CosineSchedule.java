package cs336.basics;

/**
 * A learning rate that rises linearly from 0 to its highest, then falls along half a cosine to its lowest, and stays
 * there. As in SGDR (Loshchilov and Hutter, <a href="https://arxiv.org/abs/1608.03983">arXiv:1608.03983</a>) without
 * restarts, with the warm-up of LLaMA.
 *
 * @param maxLearningRate reached at step {@code warmupSteps}; at least {@code minLearningRate}
 * @param minLearningRate from step {@code endStep} on; at least 0
 * @param warmupSteps length of the rise, at least 0
 * @param endStep where the fall ends; above {@code warmupSteps}
 */
public record CosineSchedule(double maxLearningRate, double minLearningRate, long warmupSteps, long endStep) {
    public CosineSchedule {
        TrainedParameters.requireRate("maxLearningRate", maxLearningRate);
        if (!(minLearningRate >= 0 && minLearningRate <= maxLearningRate)) {
            throw new IllegalArgumentException("minLearningRate must be from 0 to maxLearningRate " + maxLearningRate
                    + ", not " + minLearningRate);
        }
        if (warmupSteps < 0) {
            throw new IllegalArgumentException("warmupSteps must be at least 0, not " + warmupSteps);
        }
        if (endStep <= warmupSteps) {
            throw new IllegalArgumentException("endStep must be above warmupSteps " + warmupSteps + ", not " + endStep);
        }
    }

    /**
     * The learning rate of a step, counted from 0.
     *
     * @throws IllegalArgumentException if {@code step} is negative
     */
    public double at(long step) {
        if (step < 0) {
            throw new IllegalArgumentException("step must be at least 0, not " + step);
        }
        if (step < warmupSteps) {
            return maxLearningRate * step / warmupSteps;
        }
        if (step >= endStep) {
            return minLearningRate;
        }
        double fallen = (double) (step - warmupSteps) / (endStep - warmupSteps);
        return minLearningRate + (1 + Math.cos(Math.PI * fallen)) / 2 * (maxLearningRate - minLearningRate);
    }
}
