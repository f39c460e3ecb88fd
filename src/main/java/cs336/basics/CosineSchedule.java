package cs336.basics;

/**
 * A learning rate schedule with linear warm-up from 0, cosine decay and a constant end: SGDR (Loshchilov and Hutter, <a
 * href="https://arxiv.org/abs/1608.03983">arXiv:1608.03983</a>) without restarts, with warm-up as in LLaMA.
 *
 * @param maxLearningRate the learning rate at step {@code warmupSteps}; at least {@code minLearningRate}
 * @param minLearningRate the learning rate from step {@code endStep} on; at least 0
 * @param warmupSteps the length of the warm-up, at least 0
 * @param endStep the first step after the cosine decay; above {@code warmupSteps}
 */
public record CosineSchedule(double maxLearningRate, double minLearningRate, long warmupSteps, long endStep) {
    /** @throws IllegalArgumentException if a value is out of range */
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
     * Returns the learning rate of a step, counted from 0.
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
        double progress = (double) (step - warmupSteps) / (endStep - warmupSteps);
        return minLearningRate + (1 + Math.cos(Math.PI * progress)) / 2 * (maxLearningRate - minLearningRate);
    }
}
