package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Flop;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.Locale;

/**
 * The conditions under which a mesh of X × Y chips, with FSDP along X and tensor parallelism along Y, is compute-bound.
 * They hold for the forward pass of a block of two matrices D → F → D on a batch of B tokens. Weights and activations
 * are sent in bf16. Source: the Scaling Book (Austin et al. 2025, part 5). A chip computes C FLOP/s and sends W bytes/s
 * over each axis of the torus; X has M_X of these axes and Y has M_Y.
 *
 * <ul>
 *   <li>The computation takes 4BDF / (XYC).
 *   <li>The all-gather of the weights along X takes 4DF / (Y·M_X·W).
 *   <li>The all-gather and reduce-scatter of the activations along Y take 4BD / (X·M_Y·W).
 * </ul>
 *
 * <p>As in the book, (n−1)/n is approximated by 1 and latency is neglected.
 *
 * @param dModel D
 * @param dFf F
 * @param chip provides C and W
 * @param fsdp X
 * @param fsdpAxes M_X
 * @param tensor Y
 * @param tensorAxes M_Y
 */
public record ComputeBound(int dModel, int dFf, Accelerator chip, int fsdp, int fsdpAxes, int tensor, int tensorAxes) {
    /** @throws IllegalArgumentException if a number is below 1 */
    public ComputeBound {
        ArgumentCheck.atLeast("dModel", 1, dModel);
        ArgumentCheck.atLeast("dFf", 1, dFf);
        ArgumentCheck.atLeast("fsdp", 1, fsdp);
        ArgumentCheck.atLeast("fsdpAxes", 1, fsdpAxes);
        ArgumentCheck.atLeast("tensor", 1, tensor);
        ArgumentCheck.atLeast("tensorAxes", 1, tensorAxes);
    }

    /** Returns N, the number of chips. */
    public long chips() {
        return (long) fsdp * tensor;
    }

    /** Returns the compute time. */
    public Seconds computing(Tokens batch) {
        return new Flop(4.0 * batch.count() * dModel * dFf / chips()).at(chip.peak());
    }

    /** Returns the time to all-gather the weights, which does not depend on the batch. */
    public Seconds gatheringWeights() {
        return new Seconds(
                4.0 * dModel * dFf / tensor / chip.link().times(fsdpAxes).bytesPerSecond());
    }

    /** Returns the time to all-gather and reduce-scatter the activations. */
    public Seconds movingActivations(Tokens batch) {
        return new Seconds(4.0
                * batch.count()
                * dModel
                / fsdp
                / chip.link().times(tensorAxes).bytesPerSecond());
    }

    /** Returns α = C / W, in FLOP per byte. */
    public double intensity() {
        return chip.intensity();
    }

    /**
     * Returns the largest Y for which sending the activations takes no longer than the computation, for any batch:
     * F·M_Y / α.
     */
    public double widestTensor() {
        return dFf * tensorAxes / intensity();
    }

    /**
     * Returns the smallest compute-bound batch if both communications run concurrently, on different axes: X·α / M_X.
     *
     * @throws IllegalArgumentException if Y is larger than {@link #widestTensor}
     */
    public Tokens batchConcurrent() {
        requireNarrow();
        return tokens(fsdp * intensity() / fsdpAxes);
    }

    /**
     * Returns the smallest compute-bound batch if both communications run one after the other: X·(α / M_X) / (1 − Y /
     * Y_widest).
     *
     * @throws IllegalArgumentException if Y is not smaller than {@link #widestTensor}
     */
    public Tokens batchSequential() {
        requireNarrow();
        double left = 1 - tensor / widestTensor();
        if (left <= 0) {
            throw tooWide();
        }
        return tokens(fsdp * intensity() / fsdpAxes / left);
    }

    /** Returns the minimum of {@link #batchConcurrent} over all real X and Y with the same XY: N·α² / (M_X·M_Y·F). */
    public Tokens batchOfBestMeshConcurrent() {
        return tokens(chips() * intensity() * intensity() / (fsdpAxes * tensorAxes * (double) dFf));
    }

    /**
     * Returns the minimum of {@link #batchSequential} over all real X and Y with the same XY: four times the concurrent
     * one.
     */
    public Tokens batchOfBestMeshSequential() {
        return tokens(4.0 * chips() * intensity() * intensity() / (fsdpAxes * tensorAxes * (double) dFf));
    }

    /** Returns the X for which both communications take equally long: √(N·B·M_X / (F·M_Y)). */
    public double bestFsdp(Tokens batch) {
        return Math.sqrt((double) chips() * batch.count() * fsdpAxes / ((double) dFf * tensorAxes));
    }

    private static Tokens tokens(double least) {
        return new Tokens((long) Math.ceil(least));
    }

    private void requireNarrow() {
        if (tensor > widestTensor()) {
            throw tooWide();
        }
    }

    private IllegalArgumentException tooWide() {
        return new IllegalArgumentException(String.format(
                Locale.ROOT,
                "tensor must be at most %.1f, not %d: beyond that, moving activations takes longer than computing at any"
                        + " batch",
                widestTensor(),
                tensor));
    }
}
