package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bytes;
import cs336.units.Flop;
import cs336.units.Seconds;
import cs336.units.Tokens;

/**
 * Computation and communication of a SwiGLU feed-forward layer (three matrices of D × F) on a mesh of X · Y devices,
 * which answer the course's calculations on data parallelism, FSDP, tensor parallelism and both together (2026).
 * Weights, gradients and activations are sent in bf16 by rings, whose latency is neglected. C is the peak of a device
 * and W the bandwidth of its link in one direction.
 *
 * <p>For a batch of B tokens:
 *
 * <ul>
 *   <li>Forward pass: 6·B·D·F / (X·Y) FLOP. Backward pass: twice as many.
 *   <li>Data parallelism over X: the gradients are all-reduced in the backward pass, 12·D·F·(X−1) / (X·Y) bytes.
 *   <li>FSDP over X: the weights are all-gathered in the forward pass, 6·D·F·(X−1) / (X·Y) bytes, and again in the
 *       backward pass, with a reduce-scatter of the gradients in addition: 12·D·F·(X−1) / (X·Y) bytes.
 *   <li>Tensor parallelism over Y: the output of B/X tokens is all-reduced in the forward pass, 4·B·D·(Y−1) / (X·Y)
 *       bytes, and the gradient of the input in the backward pass.
 * </ul>
 *
 * @param dModel D
 * @param dFf F
 * @param device device with C and W
 * @param dataDevices X, number of devices of data parallelism or FSDP
 * @param tensorDevices Y, number of devices that split each matrix
 */
public record FeedForwardParallelism(int dModel, int dFf, Accelerator device, int dataDevices, int tensorDevices) {
    private static final int BYTES = 2; // bf16
    private static final int MATRICES = 3;

    /** @throws IllegalArgumentException if a number is below 1 */
    public FeedForwardParallelism {
        ArgumentCheck.atLeast("dModel", 1, dModel);
        ArgumentCheck.atLeast("dFf", 1, dFf);
        ArgumentCheck.atLeast("dataDevices", 1, dataDevices);
        ArgumentCheck.atLeast("tensorDevices", 1, tensorDevices);
    }

    /** Returns the time of the forward pass at the peak of the devices. */
    public Seconds forward(Tokens batch) {
        double flop = 2.0 * MATRICES * batch.count() * dModel * dFf / dataDevices / tensorDevices;
        return new Flop(flop).at(device.peak());
    }

    /** Returns the time of the backward pass at the peak of the devices. */
    public Seconds backward(Tokens batch) {
        return forward(batch).times(2);
    }

    /** Returns the time of data parallelism's all-reduce of the gradients. */
    public Seconds dataParallelAllReduce() {
        return Collective.ALL_REDUCE.sent(weights(), dataDevices).over(device.link());
    }

    /** Returns the time of FSDP's all-gather of the weights in the forward pass. */
    public Seconds fsdpForward() {
        return Collective.ALL_GATHER.sent(weights(), dataDevices).over(device.link());
    }

    /** Returns the time of FSDP's all-gather and reduce-scatter in the backward pass. */
    public Seconds fsdpBackward() {
        return fsdpForward().times(2);
    }

    /** Returns the time of tensor parallelism's all-reduce in the forward pass, or of that in the backward pass. */
    public Seconds tensorAllReduce(Tokens batch) {
        var activations = new Bytes(batch.count() * dModel * BYTES / dataDevices);
        return Collective.ALL_REDUCE.sent(activations, tensorDevices).over(device.link());
    }

    /**
     * Returns the smallest batch whose computation takes at least as long as the communication of weights or gradients:
     * B = (X−1)·C/W. The bound is the same for data parallelism and for both passes of FSDP.
     */
    public Tokens smallestBatch() {
        return new Tokens((long) Math.ceil((dataDevices - 1) * device.intensity()));
    }

    /**
     * Returns the largest Y for which the forward pass takes at least as long as its all-reduce: 1 + 3·F·W / (2·C), at
     * any batch. The backward pass has twice the computation for one all-reduce, and so a weaker bound.
     */
    public int mostTensorDevices() {
        return (int) Math.floor(1 + 1.5 * dFf / device.intensity());
    }

    /** Returns the size of the weights on one of the Y tensor-parallel devices, before they are sharded over X. */
    private Bytes weights() {
        return Bytes.of((long) MATRICES * dModel * dFf, BYTES).sharedBy(tensorDevices);
    }
}
