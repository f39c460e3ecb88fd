/**
 * A thin layer over the PyTorch presets: loading the native libraries, devices, dtypes, memory scopes, autocast,
 * profiler ranges, operators without a binding, and autograd functions with a backward pass in Java.
 *
 * <p>Start with {@link cs336.torch.MemoryScope} (when native memory is freed), then {@link cs336.torch.Device} and
 * {@link cs336.torch.DType}, {@link cs336.torch.Tensors} (arrays to tensors and back) and
 * {@link cs336.torch.AutogradFunction} (custom backward passes).
 *
 * <p>Uses no other package of the project.
 */
package cs336.torch;
