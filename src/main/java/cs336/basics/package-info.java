/**
 * The model under study and what trains it, written from PyTorch's tensor operations: layers, Transformer language
 * models in the forms of two years' courses, optimizers, losses, batches.
 *
 * <p>Shapes are written with B batch, T positions (the context), D model width, H heads, d width of a head, F width of
 * the feed-forward layer, V vocabulary.
 */
package cs336.basics;
