package cs336.scaling;

import cs336.bench.ArgumentCheck;

/**
 * Devices in a grid: how many along each axis. Sequences are split along {@code data} and {@code shards}, each block's
 * matrices along {@code tensor}, blocks along {@code pipeline}.
 *
 * @param data replicas of the training state, kept equal by all-reduce
 * @param shards devices among which each replica is split, as {@code stage} says
 * @param stage what is split along {@code shards}
 * @param tensor devices that share each matrix
 * @param pipeline stages of consecutive blocks
 */
public record Mesh(int data, int shards, ZeroStage stage, int tensor, int pipeline) {
    /** @throws IllegalArgumentException if an axis is below 1 */
    public Mesh {
        ArgumentCheck.atLeast("data", 1, data);
        ArgumentCheck.atLeast("shards", 1, shards);
        ArgumentCheck.atLeast("tensor", 1, tensor);
        ArgumentCheck.atLeast("pipeline", 1, pipeline);
    }

    /** One device. */
    public static Mesh single() {
        return new Mesh(1, 1, ZeroStage.PARAMETERS, 1, 1);
    }

    public Mesh withData(int n) {
        return new Mesh(n, shards, stage, tensor, pipeline);
    }

    public Mesh withShards(int n, ZeroStage what) {
        return new Mesh(data, n, what, tensor, pipeline);
    }

    public Mesh withTensor(int n) {
        return new Mesh(data, shards, stage, n, pipeline);
    }

    public Mesh withPipeline(int n) {
        return new Mesh(data, shards, stage, tensor, n);
    }

    public long devices() {
        return (long) data * shards * tensor * pipeline;
    }

    /** Groups of devices that each take sequences of their own. */
    public long batchShards() {
        return (long) data * shards;
    }

    @Override
    public String toString() {
        var text = new StringBuilder();
        if (data > 1) text.append("DP ").append(data);
        if (shards > 1)
            text.append(text.isEmpty() ? "" : " × ").append(stage).append(' ').append(shards);
        if (tensor > 1) text.append(text.isEmpty() ? "" : " × ").append("TP ").append(tensor);
        if (pipeline > 1) text.append(text.isEmpty() ? "" : " × ").append("PP ").append(pipeline);
        return text.isEmpty() ? "1 device" : text.toString();
    }
}
