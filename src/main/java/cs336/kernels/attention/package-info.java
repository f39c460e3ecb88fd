/** FlashAttention as CUDA kernels, from the first version to Hopper's, and their benchmarks. */
package cs336.kernels.attention;
