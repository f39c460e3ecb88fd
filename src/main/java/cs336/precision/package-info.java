/**
 * Experiments on narrow floating-point types: what they can hold, what sums lose in them, which types autocast chooses,
 * which parts of a layer normalisation need more bits, and what of a gradient is lost below the range of fp16.
 */
package cs336.precision;
