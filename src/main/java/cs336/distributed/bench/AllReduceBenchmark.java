package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Times all-reduces of float32 tensors; every rank runs it.
 *
 * <p><b>Protocol.</b> Some steps of warm-up, the first of which connects the ranks. Before each timed all-reduce the
 * tensor is filled anew, and the ranks meet in an all-reduce of a single number, after which each waits for its device.
 * The clock stops when the device is done: an all-reduce that has been queued on a card has not happened yet. Of each
 * all-reduce the time of the rank counts that took longest, which includes what that rank waited for a later one. The
 * last sum is checked.
 *
 * <p>With NCCL, whose calls only queue work, groups of {@value #QUEUED} all-reduces are timed too that are queued one
 * after the other and waited for once: what is left of each then is what one costs in the midst of other work.
 *
 * <p>Where steps would take longer than the time for them, there are fewer, all ranks the same, but at least
 * {@value #LEAST_STEPS}.
 */
public final class AllReduceBenchmark {
    static final int LEAST_STEPS = 3;
    private static final int GROUPS = 10;
    private static final int QUEUED = 20;
    private static final int LEAST_QUEUED = 2;
    private static final double NANOS_PER_MS = 1e6;

    private final ProcessGroup group;
    private final Device device;
    private int warmup = 5;
    private int steps = 20;
    private double seconds = 10;

    private AllReduceBenchmark(ProcessGroup group) {
        this.group = group;
        this.device = group.device();
    }

    /** A benchmark of 5 + 20 steps, or of as many as fit into 10 seconds. */
    public static AllReduceBenchmark of(ProcessGroup group) {
        return new AllReduceBenchmark(group);
    }

    /** Steps before timing begins, at least 2. */
    public AllReduceBenchmark warmup(int n) {
        warmup = ArgumentCheck.atLeast("warmup", 2, n);
        return this;
    }

    /** Timed steps, at least {@value #LEAST_STEPS}. */
    public AllReduceBenchmark steps(int n) {
        steps = ArgumentCheck.atLeast("steps", LEAST_STEPS, n);
        return this;
    }

    /** About how long the timed steps of one size may take, in seconds, above 0. */
    public AllReduceBenchmark seconds(double most) {
        if (!(most > 0)) throw new IllegalArgumentException("seconds must be above 0, not " + most);
        seconds = most;
        return this;
    }

    /**
     * Times one size, on each rank the same.
     *
     * @param bytes of the tensor on each rank, a multiple of 4
     * @throws IllegalStateException if a sum came out wrong
     */
    public AllReduceTimes run(long bytes) {
        if (bytes < 4 || bytes % 4 != 0) {
            throw new IllegalArgumentException("bytes must be a multiple of 4, a float32, not " + bytes);
        }
        try (var scope = MemoryScope.open()) {
            Tensor tensor = torch.empty(new long[] {bytes / 4}, device.options(DType.FLOAT32), null);
            once(tensor, 1);
            double estimate = Slowest.of(group, new double[] {once(tensor, 1)})[0];
            int affordable = (int) Math.min(Integer.MAX_VALUE, 1e3 * seconds / estimate);
            for (int i = 2; i < Math.min(warmup, 2 + affordable / 4); i++) once(tensor, 1);
            List<Double> time = timed(tensor, Math.max(LEAST_STEPS, Math.min(steps, affordable)), 1);
            requireSum(tensor);
            return new AllReduceTimes(group.size(), bytes, time, queued(tensor, affordable));
        }
    }

    private List<Double> queued(Tensor tensor, int affordable) {
        if (group.backend() != CollectiveBackend.NCCL) return List.of();
        int queue = Math.max(LEAST_QUEUED, Math.min(QUEUED, affordable / LEAST_STEPS));
        once(tensor, queue);
        return timed(tensor, Math.max(LEAST_STEPS, Math.min(GROUPS, affordable / queue)), queue);
    }

    private List<Double> timed(Tensor tensor, int samples, int repeat) {
        double[] mine = new double[samples];
        for (int i = 0; i < samples; i++) mine[i] = once(tensor, repeat);
        return Arrays.stream(Slowest.of(group, mine)).boxed().toList();
    }

    /** Milliseconds that one of several all-reduces takes here. */
    private double once(Tensor tensor, int repeat) {
        try (var scope = MemoryScope.open()) {
            tensor.fill_(new Scalar(group.rank() + 1.0));
            Tensor meeting = torch.zeros(new long[] {1}, device.options(DType.FLOAT32));
            device.synchronize();
            group.allReduce(meeting, Reduction.SUM);
            device.synchronize();
        }
        long start = System.nanoTime();
        for (int i = 0; i < repeat; i++) group.allReduce(tensor, Reduction.SUM);
        device.synchronize();
        return (System.nanoTime() - start) / NANOS_PER_MS / repeat;
    }

    /** Ranks hold 1, 2 … n, so all elements are n (n + 1) / 2 now. */
    private void requireSum(Tensor tensor) {
        double sum = group.size() * (group.size() + 1) / 2.0;
        double least = tensor.min().item().toDouble();
        double most = tensor.max().item().toDouble();
        if (least != sum || most != sum) {
            throw new IllegalStateException(
                    "the sum of 1 … %d came out as %s to %s".formatted(group.size(), least, most));
        }
    }
}
