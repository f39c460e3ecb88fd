package cs336.distributed.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

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
 * A benchmark of all-reduces of float32 tensors. Every rank runs it.
 *
 * <p><b>Protocol.</b> The first warm-up step connects the ranks. Before each timed all-reduce the tensor is refilled,
 * the ranks synchronize with an all-reduce of one element, and each rank synchronizes its device. The measured time
 * ends when the device has finished, because on a GPU the call only queues the all-reduce. The reported time of an
 * all-reduce is that of the slowest rank; it includes the time that this rank waited for others. The final sum is
 * checked.
 *
 * <p>NCCL calls return as soon as the work is queued. For NCCL, groups of {@value #QUEUED} all-reduces are therefore
 * also timed back to back, with one synchronization at the end: the time per all-reduce without launch and
 * synchronization overhead.
 *
 * <p>If the steps would exceed the plan's time limit, all ranks run fewer of them, but at least {@value #LEAST_STEPS}.
 * Groups of back-to-back all-reduces are then smaller, but have at least {@value #LEAST_QUEUED}.
 */
public final class AllReduceBenchmark {
    static final int LEAST_STEPS = 3;
    private static final int GROUPS = 10;
    private static final int QUEUED = 20;
    private static final int LEAST_QUEUED = 2;

    private final ProcessGroup group;
    private final Device device;
    private final AllReducePlan plan;

    /** Creates a benchmark of the group's all-reduces. */
    public AllReduceBenchmark(ProcessGroup group, AllReducePlan plan) {
        this.group = group;
        this.device = group.device();
        this.plan = plan;
    }

    /**
     * Times all-reduces of one size. All ranks call it with the same size.
     *
     * @param bytes size of the tensor on each rank, a multiple of 4
     * @throws IllegalStateException if a sum is wrong
     * @throws IllegalArgumentException if {@code bytes} is not a positive multiple of 4
     */
    public AllReduceTimes run(long bytes) {
        if (bytes < 4 || bytes % 4 != 0) {
            throw new IllegalArgumentException("bytes must be a positive multiple of 4 (float32), not " + bytes);
        }
        try (var scope = MemoryScope.open()) {
            Tensor tensor = torch.empty(new long[] {bytes / 4}, device.options(DType.FLOAT32), null);
            once(tensor, 1);
            double estimate = group.max(new double[] {once(tensor, 1)})[0];
            int affordable = (int) Math.min(Integer.MAX_VALUE, 1e3 * plan.seconds() / estimate);
            for (int i = 2; i < Math.min(plan.warmup(), 2 + affordable / 4); i++) {
                once(tensor, 1);
            }
            List<Double> time = timed(tensor, Math.max(LEAST_STEPS, Math.min(plan.steps(), affordable)), 1);
            requireSum(tensor);
            return new AllReduceTimes(group.size(), bytes, time, queued(tensor, affordable));
        }
    }

    private List<Double> queued(Tensor tensor, int affordable) {
        if (group.backend() != CollectiveBackend.NCCL) {
            return List.of();
        }
        int queue = Math.max(LEAST_QUEUED, Math.min(QUEUED, affordable / LEAST_STEPS));
        once(tensor, queue);
        return timed(tensor, Math.max(LEAST_STEPS, Math.min(GROUPS, affordable / queue)), queue);
    }

    private List<Double> timed(Tensor tensor, int samples, int repeat) {
        double[] ms = new double[samples];
        for (int i = 0; i < samples; i++) {
            ms[i] = once(tensor, repeat);
        }
        return Arrays.stream(group.max(ms)).boxed().toList();
    }

    /** Returns this rank's mean time of {@code repeat} all-reduces that run back to back, in milliseconds. */
    private double once(Tensor tensor, int repeat) {
        try (var scope = MemoryScope.open()) {
            tensor.fill_(new Scalar(group.rank() + 1.0));
            Tensor element = torch.zeros(new long[] {1}, device.options(DType.FLOAT32));
            device.synchronize();
            group.allReduce(element, Reduction.SUM);
            device.synchronize();
        }
        long start = System.nanoTime();
        for (int i = 0; i < repeat; i++) {
            group.allReduce(tensor, Reduction.SUM);
        }
        device.synchronize();
        return (System.nanoTime() - start) / NANOS_PER_MS / repeat;
    }

    /** Checks the sum: rank r holds r + 1, so every element is n (n + 1) / 2. */
    private void requireSum(Tensor tensor) {
        double sum = group.size() * (group.size() + 1) / 2.0;
        double least = tensor.min().item().toDouble();
        double most = tensor.max().item().toDouble();
        if (least != sum || most != sum) {
            throw new IllegalStateException(
                    "the all-reduced sum must be %s everywhere, not %s to %s".formatted(sum, least, most));
        }
    }
}
