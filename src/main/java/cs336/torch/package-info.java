/**
 * A thin layer over the JavaCPP Presets for PyTorch, here called the presets: Java bindings of libtorch's C++ API. It
 * loads the native libraries, and has devices, dtypes, memory scopes, autocast and profiler ranges. It also has
 * operators without a binding, and autograd functions with a backward pass in Java.
 *
 * <p>Read in this order:
 *
 * <ol>
 *   <li>{@link cs336.torch.MemoryScope}: when native memory is freed.
 *   <li>{@link cs336.torch.Device} and {@link cs336.torch.DType}.
 *   <li>{@link cs336.torch.Tensors}: arrays to tensors and back.
 *   <li>{@link cs336.torch.AutogradFunction}: custom backward passes.
 * </ol>
 *
 * <p>Uses no other package of the project.
 */
package cs336.torch;
