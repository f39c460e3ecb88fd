package cs336.scaling;

import cs336.bench.ArgumentCheck;

/**
 * A mesh of devices with four axes of parallelism. Sequences are split along {@code data} and {@code shards}, the
 * matrices of each block along {@code tensor}, and blocks along {@code pipeline}.
 *
 * @param data number of replicas of the training state, synchronized by all-reduce
 * @param shards number of devices that shard each replica as {@code stage} says
 * @param stage the ZeRO stage, which determines the tensors that are sharded along {@code shards}
 * @param tensor number of devices that shard each matrix
 * @param pipeline number of stages of consecutive blocks
 */
public record Mesh(int data, int shards, ZeroStage stage, int tensor, int pipeline) {
    /** @throws IllegalArgumentException if an axis is below 1, or there are more than 2³¹ − 1 devices */
    public Mesh {
        ArgumentCheck.atLeast("data", 1, data);
        ArgumentCheck.atLeast("shards", 1, shards);
        ArgumentCheck.atLeast("tensor", 1, tensor);
        ArgumentCheck.atLeast("pipeline", 1, pipeline);
        double devices = (double) data * shards * tensor * pipeline;
        if (devices > Integer.MAX_VALUE) {
            throw new IllegalArgumentException("data × shards × tensor × pipeline must be at most %d devices, not %.3g"
                    .formatted(Integer.MAX_VALUE, devices));
        }
    }

    /** Returns a mesh of one device. */
    public static Mesh single() {
        return new Mesh(1, 1, ZeroStage.PARAMETERS, 1, 1);
    }

    /** Returns the mesh with n replicas. */
    public Mesh withData(int n) {
        return new Mesh(n, shards, stage, tensor, pipeline);
    }

    /** Returns the mesh with n shards of each replica. */
    public Mesh withShards(int n, ZeroStage newStage) {
        return new Mesh(data, n, newStage, tensor, pipeline);
    }

    /** Returns the mesh with n devices that shard each matrix. */
    public Mesh withTensor(int n) {
        return new Mesh(data, shards, stage, n, pipeline);
    }

    /** Returns the number of devices. */
    public long devices() {
        return (long) data * shards * tensor * pipeline;
    }

    /**
     * Returns the number of data-parallel ranks: {@code data × shards}. Each rank is a group of {@code tensor ×
     * pipeline} devices, which process the same sequences.
     */
    public long batchShards() {
        return (long) data * shards;
    }

    /** Returns the axes longer than 1, as in {@code DP 2 × FSDP 16 × TP 8}. */
    @Override
    public String toString() {
        var text = new StringBuilder();
        if (data > 1) {
            text.append("DP ").append(data);
        }
        if (shards > 1) {
            text.append(text.isEmpty() ? "" : " × ").append(stage).append(' ').append(shards);
        }
        if (tensor > 1) {
            text.append(text.isEmpty() ? "" : " × ").append("TP ").append(tensor);
        }
        if (pipeline > 1) {
            text.append(text.isEmpty() ? "" : " × ").append("PP ").append(pipeline);
        }
        return text.isEmpty() ? "1 device" : text.toString();
    }
}
