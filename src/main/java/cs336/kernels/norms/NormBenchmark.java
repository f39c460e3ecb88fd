package cs336.kernels.norms;

import static cs336.units.UnitFactors.GB;

import cs336.basics.NnModule;
import cs336.bench.DeviceTimer;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A benchmark of normalisations of random rows: time, and achieved bandwidth compared with that of a copy.
 *
 * <p><b>Protocol.</b> After warm-up, the passes run in {@value #GROUPS} groups of equal size, with a device
 * synchronisation before each group. Two untimed passes then keep the GPU occupied until the host has enqueued the
 * first timed one, whose launch overhead is thus not measured. CUDA events before and after the group measure its time;
 * on the CPU it is the wall time. A sample is the time of a group divided by its passes. Gradients are set to none
 * before each pass, as in a training step, so the backward pass does not accumulate.
 *
 * <p><b>Bytes</b> are the minimum that must be moved: forward reads x and writes y, backward reads x and dy and writes
 * dx, each once. The weight and its gradient are negligible. Bandwidth is these bytes divided by the median time, so an
 * implementation that moves more bytes shows a lower bandwidth. The reference is PyTorch's copy of x, which reads and
 * writes as many bytes as a forward pass.
 */
final class NormBenchmark {
    static final int GROUPS = 20;
    private static final int WARMUP = 5;
    private static final int LEAD = 2;
    private static final String BANDWIDTH = "GB/s";

    /** Metrics of an implementation, in the order of {@link #run}. */
    static final List<Metric> METRICS = List.of(
            Metric.ms("forward"),
            Metric.bytes("forward-bytes"),
            new Metric("forward-bandwidth", BANDWIDTH),
            new Metric("forward-share-of-copy", "%"),
            Metric.ms("forward-backward"),
            Metric.bytes("forward-backward-bytes"),
            new Metric("forward-backward-bandwidth", BANDWIDTH),
            new Metric("forward-backward-share-of-copy", "%"));

    /** Metrics of the copy, in the order of {@link #copy}. */
    static final List<Metric> COPY_METRICS =
            List.of(Metric.ms("forward"), Metric.bytes("forward-bytes"), new Metric("forward-bandwidth", BANDWIDTH));

    private final int width;
    private final DType dtype;
    private final Device device;
    private final int passes; // per group
    private final Tensor x;
    private final Tensor dy;
    private final long tensorBytes;

    /**
     * Creates random rows, in the caller's memory scope.
     *
     * @param passes timed passes of all groups together
     */
    NormBenchmark(int rows, int width, DType dtype, Device device, int passes) {
        this.width = width;
        this.dtype = dtype;
        this.device = device;
        this.passes = Math.max(1, passes / GROUPS);
        x = random(rows).set_requires_grad(true);
        dy = random(rows);
        tensorBytes = (long) rows * width * dtype.bytes();
    }

    private Tensor random(int rows) {
        try (var scope = MemoryScope.open()) {
            Tensor values = torch.randn(new long[] {rows, width}, device.options(DType.FLOAT32));
            return scope.escape(values.to(dtype.scalarType()));
        }
    }

    /** Measures {@code y.copy_(x)} and returns {@link #COPY_METRICS}. */
    List<Samples> copy() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor y = torch.empty_like(x);
            Samples time = time("forward", () -> y.copy_(x));
            return List.of(time, bytes("forward", 2), bandwidth("forward", 2, time));
        }
    }

    /** Returns the bandwidth in GB/s from the result of {@link #copy}. */
    static double copyBandwidth(List<Samples> copy) {
        return copy.get(2).summary().median();
    }

    /**
     * Measures the forward pass and forward with backward, and returns {@link #METRICS}.
     *
     * @param copyBandwidth bandwidth of a copy of the same rows, in GB/s
     */
    List<Samples> run(NormImplementation implementation, double copyBandwidth) {
        try (NnModule norm = implementation.create(width, device, dtype)) {
            List<Samples> samples = new ArrayList<>();
            Samples forward;
            try (var noGrad = NoGrad.open()) {
                forward = time("forward", () -> norm.forward(x));
            }
            add(samples, "forward", 2, forward, copyBandwidth);
            Samples both = time("forward-backward", () -> {
                clearGrad(x);
                norm.parameters().forEach(NormBenchmark::clearGrad);
                Backward.of(norm.forward(x)).with(dy).run();
            });
            add(samples, "forward-backward", 5, both, copyBandwidth);
            return samples;
        } finally {
            clearGrad(x);
        }
    }

    private void add(List<Samples> samples, String pass, int tensors, Samples time, double copyBandwidth) {
        Samples bandwidth = bandwidth(pass, tensors, time);
        samples.add(time);
        samples.add(bytes(pass, tensors));
        samples.add(bandwidth);
        samples.add(Samples.once(
                new Metric(pass + "-share-of-copy", "%"),
                100 * bandwidth.summary().median() / copyBandwidth));
    }

    private Samples bytes(String pass, int tensors) {
        return Samples.once(Metric.bytes(pass + "-bytes"), tensors * tensorBytes);
    }

    private Samples bandwidth(String pass, int tensors, Samples time) {
        double seconds = time.summary().median() / 1e3;
        return Samples.once(new Metric(pass + "-bandwidth", BANDWIDTH), tensors * tensorBytes / seconds / GB);
    }

    private static void clearGrad(Tensor leaf) {
        try (Tensor none = new Tensor()) {
            leaf.mutable_grad().put(none);
        }
    }

    private Samples time(String metric, Runnable pass) {
        List<Double> ms = new ArrayList<>();
        repeat(WARMUP, pass);
        try (var timer = DeviceTimer.on(device, 2)) {
            for (int group = 0; group < GROUPS; group++) {
                device.synchronize();
                if (device.isCuda()) {
                    repeat(LEAD, pass);
                }
                timer.mark(0);
                repeat(passes, pass);
                timer.mark(1);
                ms.add(timer.ms(0, 1) / passes);
            }
        }
        return new Samples(Metric.ms(metric), ms);
    }

    private static void repeat(int times, Runnable pass) {
        for (int i = 0; i < times; i++) {
            try (var scope = MemoryScope.open()) {
                pass.run();
            }
        }
    }
}
