/**
 * The Transformer language models of the course and the parts of their training: layers, attention, loss, optimizers,
 * loss scaling, batches and checkpoints, written with PyTorch's tensor operations.
 *
 * <p>Read first: {@link cs336.basics.NnModule} (the base class of all layers), {@link cs336.basics.TransformerLM} with
 * {@link cs336.basics.TransformerConfig} (the model and its architecture), {@link cs336.basics.SelfAttention} and
 * {@link cs336.basics.PlainAttention} (attention in plain tensor operations), {@link cs336.basics.AdamW} (the
 * optimizer).
 *
 * <p>Shapes use B batch, T sequence length, S number of keys, D model width, H heads, d head width, F inner width of
 * the feed-forward layer, V vocabulary size.
 *
 * <p>May use {@code checkpointing} and {@code safetensors}, and the packages that they may use.
 */
package cs336.basics;
