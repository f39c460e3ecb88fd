/** RMSNorm and the weighted sum as fused CUDA kernels, and their benchmarks. */
package cs336.kernels.norms;
