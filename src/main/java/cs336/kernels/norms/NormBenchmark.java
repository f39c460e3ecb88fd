package cs336.kernels.norms;

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
 * Times normalisation of random rows, and says which share of the memory's bandwidth that is.
 *
 * <p><b>Protocol.</b> Warm-up; then the passes in {@value #GROUPS} groups of equal size. Before a group the card is
 * waited for; two passes that do not count keep it busy while the host queues the first that counts; an event before
 * and one after the group take the time. A sample is a group's time divided by its passes. On the CPU the wall clock
 * takes the events' place. Gradients are dropped before each pass, as a training step does: none is added to an old
 * one.
 *
 * <p><b>Bytes</b> are those that have to be moved: forward reads x and writes y, backward reads x and dy and writes dx,
 * each once; the weight and its gradient are too small to count. Bandwidth is these bytes by the median time. An
 * implementation that moves more shows a lower one. The yardstick is PyTorch's copy of x, which reads and writes as
 * much as a forward pass.
 */
final class NormBenchmark {
    static final int GROUPS = 20;
    private static final int WARMUP = 5;
    private static final int LEAD = 2;
    private static final String BANDWIDTH = "GB/s";
    private static final double GB = 1e9;

    /** The metrics of an implementation, in order. */
    static final List<Metric> METRICS = List.of(
            Metric.ms("forward"),
            Metric.bytes("forward-bytes"),
            new Metric("forward-bandwidth", BANDWIDTH),
            new Metric("forward-share-of-copy", "%"),
            Metric.ms("forward-backward"),
            Metric.bytes("forward-backward-bytes"),
            new Metric("forward-backward-bandwidth", BANDWIDTH),
            new Metric("forward-backward-share-of-copy", "%"));

    /** The metrics of the copy. */
    static final List<Metric> COPY_METRICS =
            List.of(Metric.ms("forward"), Metric.bytes("forward-bytes"), new Metric("forward-bandwidth", BANDWIDTH));

    private final int width;
    private final DType dtype;
    private final Device device;
    private final int passes; // in a group
    private final Tensor x;
    private final Tensor dy;
    private final long tensorBytes;

    /** Draws the rows, into the caller's memory scope. */
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

    /** Times {@code y.copy_(x)}. */
    List<Samples> copy() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor y = torch.empty_like(x);
            Samples time = time("forward", () -> y.copy_(x));
            return List.of(time, bytes("forward", 2), bandwidth("forward", 2, time));
        }
    }

    /** The bandwidth of a copy in GB/s. */
    static double copyBandwidth(List<Samples> copy) {
        return copy.get(2).summary().median();
    }

    /**
     * Times forward, and forward with backward.
     *
     * @param copyBandwidth what a copy of the same rows reaches, in GB/s
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
                forget(x);
                norm.parameters().forEach(NormBenchmark::forget);
                Backward.of(norm.forward(x)).with(dy).run();
            });
            add(samples, "forward-backward", 5, both, copyBandwidth);
            return samples;
        } finally {
            forget(x);
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

    private static void forget(Tensor leaf) {
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
                if (device.isCuda()) repeat(LEAD, pass);
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
