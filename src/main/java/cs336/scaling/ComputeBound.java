package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Flop;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.Locale;

/**
 * When a mesh of X × Y chips, FSDP along X and tensor parallelism along Y, computes for longer than it communicates:
 * the forward pass of a block of two matrices D → F → D over a batch of B tokens, everything sent in bf16, after the
 * Scaling Book (Austin et al. 2025, part 5). With C operations a second, and W bytes a second over each of M axes of
 * the torus that a mesh axis has:
 *
 * <ul>
 *   <li>computing takes 4BDF / (XYC),
 *   <li>gathering the weights along X takes 4DF / (Y·M_X·W),
 *   <li>gathering and scattering the activations along Y takes 4BD / (X·M_Y·W).
 * </ul>
 *
 * <p>As in the book, (n−1)/n is taken as 1 and messages as large, so that latency does not count.
 *
 * @param dModel D
 * @param dFf F
 * @param chip C and W
 * @param fsdp X
 * @param fsdpAxes M_X, axes of the torus that carry X
 * @param tensor Y
 * @param tensorAxes M_Y, axes of the torus that carry Y
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

    /** N, all chips. */
    public long chips() {
        return (long) fsdp * tensor;
    }

    /** What computing takes. */
    public Seconds computing(Tokens batch) {
        return new Flop(4.0 * batch.count() * dModel * dFf / chips()).at(chip.peak());
    }

    /** What gathering the weights takes; the batch does not matter. */
    public Seconds gatheringWeights() {
        return new Seconds(
                4.0 * dModel * dFf / tensor / chip.link().times(fsdpAxes).bytesPerSecond());
    }

    /** What gathering and scattering the activations takes. */
    public Seconds movingActivations(Tokens batch) {
        return new Seconds(4.0
                * batch.count()
                * dModel
                / fsdp
                / chip.link().times(tensorAxes).bytesPerSecond());
    }

    /** α = C / W, operations for each byte. */
    public double intensity() {
        return chip.intensity();
    }

    /** The widest Y whose activations move in the time of computing, whatever the batch: F·M_Y / α. */
    public double widestTensor() {
        return dFf * tensorAxes / intensity();
    }

    /**
     * The smallest batch that computes for at least as long as each of the two communications, which run side by side,
     * for they use different axes: X·α / M_X.
     *
     * @throws IllegalArgumentException if Y is wider than {@link #widestTensor}
     */
    public Tokens batchConcurrent() {
        requireNarrow();
        return tokens(fsdp * intensity() / fsdpAxes);
    }

    /**
     * The same where the two communications run one after the other: X·(α / M_X) / (1 − Y / Y_widest).
     *
     * @throws IllegalArgumentException if Y is not narrower than {@link #widestTensor}
     */
    public Tokens batchSequential() {
        requireNarrow();
        double left = 1 - tensor / widestTensor();
        if (left <= 0) throw tooWide();
        return tokens(fsdp * intensity() / fsdpAxes / left);
    }

    /** The smallest batch of any X and Y, not only whole ones, with the same XY: N·α² / (M_X·M_Y·F) side by side. */
    public Tokens batchOfBestMeshConcurrent() {
        return tokens(chips() * intensity() * intensity() / (fsdpAxes * tensorAxes * (double) dFf));
    }

    /** The same in turn: four times as much. */
    public Tokens batchOfBestMeshSequential() {
        return tokens(4.0 * chips() * intensity() * intensity() / (fsdpAxes * tensorAxes * (double) dFf));
    }

    /** The X for which both communications take equally long: √(N·B·M_X / (F·M_Y)). */
    public double bestFsdp(Tokens batch) {
        return Math.sqrt((double) chips() * batch.count() * fsdpAxes / ((double) dFf * tensorAxes));
    }

    private static Tokens tokens(double least) {
        return new Tokens((long) Math.ceil(least));
    }

    private void requireNarrow() {
        if (tensor > widestTensor()) throw tooWide();
    }

    private IllegalArgumentException tooWide() {
        return new IllegalArgumentException(String.format(
                Locale.ROOT,
                "tensor is %d, but above %.1f moving activations takes longer than computing at any batch",
                tensor,
                widestTensor()));
    }
}
