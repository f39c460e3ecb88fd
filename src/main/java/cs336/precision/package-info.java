/**
 * Experiments on low-precision floating-point types: their precision and range, the rounding error of sums, the dtypes
 * that autocast chooses, the steps of a layer normalization that need fp32, and gradient underflow in fp16.
 *
 * <p>Start with {@link cs336.precision.FloatFormat} (precision and range of a type), then
 * {@link cs336.precision.Accumulation} (sums in a low-precision type), {@link cs336.precision.AutocastToyModel} (dtypes
 * under autocast) and {@link cs336.precision.GradientUnderflow} (why fp16 needs loss scaling).
 *
 * <p>May use {@code bench}, and the packages that it may use.
 */
package cs336.precision;
