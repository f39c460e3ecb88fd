package cs336.scaling;

import cs336.basics.PlainAttention;
import cs336.bench.ArgumentCheck;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * How much memory {@link PlainAttention} needs in training, copy by copy: what is alive at the peak of the forward
 * pass, between the passes, and at the peak of the backward pass. Inputs are leaves that require gradients and have
 * none yet; the gradient of the output is there from the start, and the output lives to the end. What libraries keep
 * for themselves, such as the workspaces of cuBLAS, is not in it.
 *
 * @param batch B, sequences (times heads, where there are heads)
 * @param context T, queries and as many keys
 * @param d width of queries, keys and values
 * @param dtype type of all tensors
 * @param causal whether there is a mask
 * @param on the kind of device: PyTorch's softmax on CUDA makes one copy more on its way back
 */
public record AttentionMemory(int batch, int context, int d, DType dtype, boolean causal, DeviceKind on) {
    private static final double MIB = 1 << 20;

    /** @throws IllegalArgumentException if a size is below 1 */
    public AttentionMemory {
        ArgumentCheck.atLeast("batch", 1, batch);
        ArgumentCheck.atLeast("context", 1, context);
        ArgumentCheck.atLeast("d", 1, d);
    }

    /**
     * A tensor that is alive.
     *
     * @param name what it is
     * @param shape in the letters B, T, d
     * @param bytes its size
     */
    public record Copy(String name, String shape, long bytes) {}

    /**
     * What is alive at one time.
     *
     * @param name when that is
     * @param copies all tensors
     */
    public record Moment(String name, List<Copy> copies) {
        public Moment {
            copies = List.copyOf(copies);
        }

        /** All copies together. */
        public long bytes() {
            return copies.stream().mapToLong(Copy::bytes).sum();
        }
    }

    /** The larger of the two times when much is alive: when the softmax is taken, and when values are summed. */
    public Moment peakOfForward() {
        Moment softmax = moment("softmax", held(), forBackward(), Stream.of(matrix("scores"), matrix("probabilities")));
        Moment product = moment("product with V", held(), forBackward(), Stream.of(matrix("probabilities"), output()));
        return larger(softmax, product);
    }

    /** The inputs, the output, and what the graph has saved. */
    public Moment beforeBackward() {
        return moment("before backward", held(), forBackward(), Stream.of(matrix("probabilities"), output()));
    }

    /**
     * The larger of the two times when much is alive: when the gradient goes back through the softmax, whose own input
     * and output it is between (on CUDA it writes the product of the two before it sums rows), and when it goes back
     * through the product of queries and keys. The gradient of the keys is computed transposed.
     */
    public Moment peakOfBackward() {
        Moment softmax = moment(
                "backward of softmax",
                held(),
                forBackward(),
                Stream.of(
                        output(),
                        matrix("probabilities"),
                        matrix("gradient of probabilities"),
                        matrix("gradient of scores"),
                        rows("gradient of values")),
                on == DeviceKind.CUDA ? Stream.of(matrix("gradient × probabilities")) : Stream.of());
        Moment product = moment(
                "backward of product with K",
                held(),
                forBackward(),
                Stream.of(
                        output(),
                        matrix("gradient of scores"),
                        rows("gradient of values"),
                        rows("gradient of scaled queries"),
                        rows("gradient of keys")));
        return larger(softmax, product);
    }

    /** The most that is alive at any time of a step. */
    public long peakBytes() {
        return Math.max(peakOfForward().bytes(), peakOfBackward().bytes());
    }

    /** What the caller gives, alive all the time: queries, keys, values, and the gradient of the output. */
    public long inputBytes() {
        return held().mapToLong(Copy::bytes).sum();
    }

    /**
     * The largest context whose training step fits into some memory.
     *
     * @param bytes the memory, without what libraries keep for themselves
     * @return 0 if none does
     */
    public static int longestContext(int batch, int d, DType dtype, boolean causal, DeviceKind on, long bytes) {
        int fits = 0;
        int doesNot = 1 << 24;
        while (doesNot - fits > 1) {
            int middle = fits + (doesNot - fits) / 2;
            if (new AttentionMemory(batch, middle, d, dtype, causal, on).peakBytes() <= bytes) {
                fits = middle;
            } else {
                doesNot = middle;
            }
        }
        return fits;
    }

    /**
     * A row a copy and a column a moment, in MiB; a last row with the sums. A cell is empty where the copy is not
     * alive.
     */
    public Table table() {
        List<Moment> moments = List.of(peakOfForward(), beforeBackward(), peakOfBackward());
        Map<String, Copy> copies = new LinkedHashMap<>();
        moments.forEach(moment -> moment.copies().forEach(copy -> copies.putIfAbsent(copy.name(), copy)));
        StringColumn names = StringColumn.create("copy");
        StringColumn shapes = StringColumn.create("shape");
        copies.values().forEach(copy -> names.append(copy.name()));
        copies.values().forEach(copy -> shapes.append(copy.shape()));
        Table table = Table.create("MiB alive", names.append("sum"), shapes.append(""));
        List<String> columns = List.of("peak of forward", "before backward", "peak of backward");
        for (int i = 0; i < columns.size(); i++) {
            DoubleColumn mib = DoubleColumn.create(columns.get(i));
            Moment moment = moments.get(i);
            for (Copy copy : copies.values()) {
                if (moment.copies().contains(copy)) {
                    mib.append(copy.bytes() / MIB);
                } else {
                    mib.appendMissing();
                }
            }
            table.addColumns(mib.append(moment.bytes() / MIB));
        }
        return table;
    }

    private Stream<Copy> held() {
        return Stream.of(rows("queries"), rows("keys"), rows("values"), rows("gradient of output"));
    }

    /** What the forward pass makes first and the graph, or the attention itself, then keeps. */
    private Stream<Copy> forBackward() {
        Copy mask = new Copy("mask", "T × T", Math.multiplyExact((long) context * context, dtype.bytes()));
        return causal ? Stream.of(rows("scaled queries"), mask) : Stream.of(rows("scaled queries"));
    }

    private Copy output() {
        return rows("output");
    }

    private Copy rows(String name) {
        return new Copy(name, "B × T × d", Math.multiplyExact((long) batch * context * d, dtype.bytes()));
    }

    private Copy matrix(String name) {
        return new Copy(
                name,
                "B × T × T",
                Math.multiplyExact(Math.multiplyExact((long) context * context, batch), dtype.bytes()));
    }

    @SafeVarargs
    private static Moment moment(String name, Stream<Copy>... copies) {
        List<Copy> all = new ArrayList<>();
        for (Stream<Copy> some : copies) {
            some.forEach(all::add);
        }
        return new Moment(name, all);
    }

    private static Moment larger(Moment a, Moment b) {
        return a.bytes() >= b.bytes() ? a : b;
    }
}
