package cs336.scaling.memory;

import cs336.basics.PlainAttention;
import cs336.bench.ArgumentCheck;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Table;

/**
 * The predicted memory of {@link PlainAttention} in training, tensor by tensor, at three points of the step: the peak
 * of the forward pass, between the passes, and the peak of the backward pass.
 *
 * <p>Queries, keys and values are leaves that require gradients and have none yet. The gradient of the output exists
 * from the start, and the output lives until the end. Workspaces of libraries, such as those of cuBLAS, are not
 * counted.
 *
 * @param batch B, the number of sequences times the number of heads
 * @param context T, the number of queries and of keys
 * @param d width of queries, keys and values
 * @param dtype type of all tensors
 * @param causal whether a causal mask is applied
 * @param on the kind of device; PyTorch's softmax backward needs one more tensor on CUDA
 */
public record AttentionMemory(int batch, int context, int d, DType dtype, boolean causal, DeviceKind on) {
    /** @throws IllegalArgumentException if a size is below 1 */
    public AttentionMemory {
        ArgumentCheck.atLeast("batch", 1, batch);
        ArgumentCheck.atLeast("context", 1, context);
        ArgumentCheck.atLeast("d", 1, d);
    }

    /** Returns the larger of two candidates for the peak: in the softmax, and in the matmul with V. */
    public MemoryInventory peakOfForward() {
        return larger(
                MemoryInventory.of("softmax", inputs(), saved(), List.of(matrix("scores"), matrix("probabilities"))),
                MemoryInventory.of("matmul with V", inputs(), saved(), List.of(matrix("probabilities"), output())));
    }

    /** Returns the inputs, the output, and the tensors saved for the backward pass. */
    public MemoryInventory beforeBackward() {
        return MemoryInventory.of("before backward", inputs(), saved(), List.of(matrix("probabilities"), output()));
    }

    /**
     * Returns the larger of two candidates for the peak. In the backward pass of the softmax, the probabilities and the
     * gradients of probabilities and scores are alive; on CUDA also the product of probabilities and their gradient,
     * which is written before its rows are summed. In the backward pass of the matmul with K, the gradients of scores,
     * queries, keys and values are alive.
     */
    public MemoryInventory peakOfBackward() {
        List<TensorMemory> softmax = new ArrayList<>(List.of(
                output(),
                matrix("probabilities"),
                matrix("gradient of probabilities"),
                matrix("gradient of scores"),
                rows("gradient of values")));
        if (on == DeviceKind.CUDA) {
            softmax.add(matrix("gradient × probabilities"));
        }
        return larger(
                MemoryInventory.of("backward of softmax", inputs(), saved(), softmax),
                MemoryInventory.of(
                        "backward of matmul with K",
                        inputs(),
                        saved(),
                        List.of(
                                output(),
                                matrix("gradient of scores"),
                                rows("gradient of values"),
                                rows("gradient of scaled queries"),
                                rows("gradient of keys"))));
    }

    /** Returns the peak memory of a step in bytes. */
    public long peakBytes() {
        return Math.max(peakOfForward().bytes(), peakOfBackward().bytes());
    }

    /** Returns the bytes of queries, keys, values and the gradient of the output, which the caller holds throughout. */
    public long inputBytes() {
        return MemoryInventory.bytes(inputs());
    }

    /**
     * Returns the longest context whose training step fits into the given memory, or 0 if none does.
     *
     * @param bytes the memory, without the workspaces of libraries
     */
    public static int longestContext(int batch, int d, DType dtype, boolean causal, DeviceKind on, long bytes) {
        int longestFitting = 0;
        // With this context one matrix of scores alone is too large. Below it no sum overflows.
        int shortestTooLong = (int) Math.min(1 << 24, Math.sqrt((double) bytes / batch / dtype.bytes()) + 1);
        while (shortestTooLong - longestFitting > 1) {
            int middle = longestFitting + (shortestTooLong - longestFitting) / 2;
            if (new AttentionMemory(batch, middle, d, dtype, causal, on).peakBytes() <= bytes) {
                longestFitting = middle;
            } else {
                shortestTooLong = middle;
            }
        }
        return longestFitting;
    }

    /**
     * Returns a table with a row for each tensor, a column in MiB for each of the three points, and a last row with the
     * sums. A cell is missing where the tensor is not alive.
     */
    public Table table() {
        Map<String, MemoryInventory> points = new LinkedHashMap<>();
        points.put("peak of forward", peakOfForward());
        points.put("before backward", beforeBackward());
        points.put("peak of backward", peakOfBackward());
        return MemoryInventory.table("tensors alive", points);
    }

    private List<TensorMemory> inputs() {
        return List.of(rows("queries"), rows("keys"), rows("values"), rows("gradient of output"));
    }

    /** Returns the first tensors of the forward pass, which stay alive until the backward pass. */
    private List<TensorMemory> saved() {
        TensorMemory queries = rows("scaled queries");
        return causal
                ? List.of(queries, new TensorMemory("mask", "T × T", dtype, 1, (long) context * context))
                : List.of(queries);
    }

    private TensorMemory output() {
        return rows("output");
    }

    private TensorMemory rows(String name) {
        return new TensorMemory(name, "B × T × d", dtype, 1, (long) batch * context * d);
    }

    private TensorMemory matrix(String name) {
        return new TensorMemory(
                name, "B × T × T", dtype, 1, Math.multiplyExact((long) context * context, (long) batch));
    }

    private static MemoryInventory larger(MemoryInventory a, MemoryInventory b) {
        return a.bytes() >= b.bytes() ? a : b;
    }
}
