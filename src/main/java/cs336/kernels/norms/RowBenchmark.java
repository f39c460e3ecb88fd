package cs336.kernels.norms;

import static cs336.units.UnitFactors.GB;
import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.NnModule;
import cs336.bench.DeviceTimer;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A benchmark of layers on random rows: time, and achieved bandwidth compared with that of a copy.
 *
 * <p><b>Protocol.</b> Passes are timed after warm-up. Gradients are set to none before each pass, as in a training
 * step, so the backward pass does not accumulate.
 *
 * <ul>
 *   <li>{@link PassSynchronization#GROUP}: the passes run in {@value #GROUPS} groups of equal size, with a device
 *       synchronization before each group. Two untimed passes then keep the GPU occupied until the host has enqueued
 *       the first timed one, whose launch overhead is thus not measured. CUDA events before and after the group measure
 *       its time; on the CPU it is the wall time. A sample is the time of a group divided by its passes.
 *   <li>{@link PassSynchronization#EACH}: a device synchronization follows each pass. A sample is the wall time of one
 *       pass and its synchronization.
 * </ul>
 *
 * <p><b>Bytes</b> are the minimum that must be moved, see {@link RowTraffic}. Bandwidth is these bytes divided by the
 * median time, so an implementation that moves more bytes shows a lower bandwidth. The reference is PyTorch's copy of
 * x, which reads and writes x once.
 */
final class RowBenchmark {
    static final int GROUPS = 20;
    private static final int WARMUP = 5;
    private static final int LEAD = 2;
    private static final int COPY_TENSORS = 2;
    private static final String BANDWIDTH = "GB/s";

    /**
     * The least traffic of a layer, in units of the bytes of x. Tensors without a dimension of the rows, or with one
     * element per row, are negligible.
     *
     * @param forward tensors that the forward pass reads or writes
     * @param forwardBackward tensors that the forward and the backward pass read or write together
     */
    record RowTraffic(int forward, int forwardBackward) {}

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
    private final int passes; // of all groups together
    private final Tensor x;
    private final long tensorBytes;

    /**
     * Creates random rows, in the caller's memory scope.
     *
     * @param passes timed passes; with {@link PassSynchronization#GROUP} rounded down to a multiple of
     *     {@value #GROUPS}, but at least {@value #GROUPS}
     */
    RowBenchmark(int rows, int width, DType dtype, Device device, int passes) {
        this.width = width;
        this.dtype = dtype;
        this.device = device;
        this.passes = passes;
        x = random(rows, width).set_requires_grad(true);
        tensorBytes = (long) rows * width * dtype.bytes();
    }

    private Tensor random(long... shape) {
        try (var scope = MemoryScope.open()) {
            Tensor values = torch.randn(shape, device.options(DType.FLOAT32));
            return scope.escape(values.to(dtype.scalarType()));
        }
    }

    /** Measures {@code y.copy_(x)} and returns {@link #COPY_METRICS}. */
    List<Samples> copy(PassSynchronization synchronization) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor y = torch.empty_like(x);
            Samples time = time("forward", synchronization, () -> y.copy_(x));
            return List.of(time, bytes("forward", COPY_TENSORS), bandwidth("forward", COPY_TENSORS, time));
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
    List<Samples> run(
            RowImplementation implementation,
            RowTraffic traffic,
            PassSynchronization synchronization,
            double copyBandwidth) {
        try (var scope = MemoryScope.open();
                NnModule layer = implementation.create(width, device, dtype)) {
            List<Samples> samples = new ArrayList<>();
            Samples forward;
            Tensor dy;
            try (var noGrad = NoGrad.open()) {
                dy = random(Tensors.shape(layer.forward(x)));
                forward = time("forward", synchronization, () -> layer.forward(x));
            }
            add(samples, "forward", traffic.forward, forward, copyBandwidth);
            Samples both = time("forward-backward", synchronization, () -> {
                clearGrad(x);
                layer.parameters().forEach(RowBenchmark::clearGrad);
                Backward.of(layer.forward(x)).with(dy).run();
            });
            add(samples, "forward-backward", traffic.forwardBackward, both, copyBandwidth);
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

    private Samples time(String metric, PassSynchronization synchronization, Runnable pass) {
        repeat(WARMUP, pass);
        return new Samples(
                Metric.ms(metric),
                switch (synchronization) {
                    case GROUP -> groupTimes(Math.max(1, passes / GROUPS), pass);
                    case EACH -> passTimes(pass);
                });
    }

    /** Returns the time per pass of each group in ms. */
    private List<Double> groupTimes(int groupPasses, Runnable pass) {
        List<Double> ms = new ArrayList<>();
        try (var timer = DeviceTimer.on(device, 2)) {
            for (int group = 0; group < GROUPS; group++) {
                device.synchronize();
                if (device.isCuda()) {
                    repeat(LEAD, pass);
                }
                timer.mark(0);
                repeat(groupPasses, pass);
                timer.mark(1);
                ms.add(timer.ms(0, 1) / groupPasses);
            }
        }
        return ms;
    }

    /** Returns the wall time of each pass in ms. */
    private List<Double> passTimes(Runnable pass) {
        List<Double> ms = new ArrayList<>();
        device.synchronize();
        for (int i = 0; i < passes; i++) {
            long start = System.nanoTime();
            repeat(1, pass);
            device.synchronize();
            ms.add((System.nanoTime() - start) / NANOS_PER_MS);
        }
        return ms;
    }

    private static void repeat(int times, Runnable pass) {
        for (int i = 0; i < times; i++) {
            try (var scope = MemoryScope.open()) {
                pass.run();
            }
        }
    }
}
