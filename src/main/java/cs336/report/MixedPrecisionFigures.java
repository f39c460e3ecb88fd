package cs336.report;

/** The figures of the chapter on mixed precision, from what {@code cs336 precision} stored. */
public final class MixedPrecisionFigures {
    private MixedPrecisionFigures() {}

    /** The error of a layer normalisation of which one part is computed in fp16 or bf16. */
    public static Figure layerNorm(Numbers numbers) {
        return Charts.bar(numbers.select("mixed_precision[experiment=layer-norm, on=cuda,"
                        + " metric=mean, centring, squares, variance, root, product]"))
                .x("metric", "the part that is narrow")
                .y("mean", "error ÷ result")
                .by("input", "rows: ")
                .panels("dtype")
                .logY()
                .size(960, 340)
                .figure(
                        "mixed-precision-layer-norm",
                        "Relative error of a layer normalisation of which one part is computed in fp16 or bf16 and the rest in"
                                + " fp32, for rows of four kinds");
    }
}
