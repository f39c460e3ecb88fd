package cs336.kernels.runtime;

import static cs336.bench.Measurement.once;
import static cs336.units.UnitFactors.GB;

import cs336.bench.Case;
import cs336.bench.DoBench;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Project;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.bench.Status;
import cs336.kernels.runtime.KernelLog.KernelLogEntry;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A notebook cell that runs CUDA kernels. On a GPU it runs them on random inputs, compares the outputs with fp64 and
 * measures the time. Without a GPU it returns the stored execution of an H200.
 *
 * <pre>{@code
 * KernelCell.of("05 sum_rows", new long[] {65_536, 1_024}, new long[] {1_024})
 *         .bytes(4.0 * 65_536 * 1_024)
 *         .reference(in -> new Tensor[] {in[0].mul(in[1]).sum(-1)})
 *         .run(device, in -> new Tensor[] {sumRows(in[0], in[1])})
 * }</pre>
 *
 * <p>{@code ./cs336 notebooks --store-kernels data/measurements} runs the cells with the tag {@code kernel} on a GPU
 * and stores their executions in {@code <machine>/kernel_executions.csv}. Times follow the protocol of {@link DoBench}.
 */
public final class KernelCell {
    /** The environment variable with the folder of measurements in which {@link #run} stores executions. */
    public static final String STORE = "CS336_STORE_KERNELS";

    /** The name of the file of stored executions. */
    public static final String PROBLEM = "kernel_executions";

    private static final Path STORED = Path.of("data/measurements/h200", PROBLEM + ".csv");
    private static final int SHOWN_VALUES = 3;
    private static final double FP32_TOLERANCE = 1e-4;
    private static final double NARROW_TOLERANCE = 2e-2;

    private final String name;
    private final long[][] shapes;
    private DType dtype = DType.FLOAT32;
    private List<String> outputs = List.of("y");
    private String unit;
    private double work; // in GB or 10¹² FLOPs
    private UnaryOperator<Tensor[]> reference;

    private KernelCell(String name, long[][] shapes) {
        this.name = name;
        this.shapes = shapes;
    }

    /**
     * Returns a cell with fp32 inputs and one output, {@code y}.
     *
     * @param name number of the notebook and a name that is unique in it; the execution is stored under it
     * @param shapes shapes of the inputs, which are standard normal
     */
    public static KernelCell of(String name, long[]... shapes) {
        return new KernelCell(name, shapes);
    }

    /** Sets the dtype of the inputs. */
    public KernelCell dtype(DType type) {
        dtype = type;
        return this;
    }

    /** Sets the names of the outputs. */
    public KernelCell outputs(String... names) {
        Objects.requireNonNull(names, "names must not be null");
        outputs = List.of(names);
        return this;
    }

    /** Sets the minimum number of bytes that a run reads and writes; the result then has a bandwidth in GB/s. */
    public KernelCell bytes(double bytes) {
        work = bytes / GB;
        unit = "GB/s";
        return this;
    }

    /** Sets the FLOPs of a run; the result then has a rate in TFLOP/s. */
    public KernelCell flops(double flops) {
        work = flops / 1e12;
        unit = "TFLOP/s";
        return this;
    }

    /** Sets the reference, the same function in tensor operations. It receives the inputs in fp64. */
    public KernelCell reference(UnaryOperator<Tensor[]> inTensorOperations) {
        reference = inTensorOperations;
        return this;
    }

    /**
     * Runs the kernels on a GPU. Without a GPU, or if its memory is too small, returns the stored execution. If the
     * environment variable {@value #STORE} is set, the result of the GPU is stored.
     *
     * @param kernels launches the kernels on the inputs and returns the outputs, in the caller's memory scope
     * @throws IOException if the stored executions cannot be read or written
     * @throws IllegalStateException on a GPU, if the cell has no reference or neither bytes nor FLOPs, if the number of
     *     outputs is wrong, or if an output differs from the reference by more than 1e-4 (fp32 inputs) or 2e-2 (other
     *     inputs) of the reference's largest absolute value
     */
    public KernelRun run(Device device, UnaryOperator<Tensor[]> kernels) throws IOException {
        if (!device.isCuda()) {
            return stored(Project.path(STORED.toString()));
        }
        String folder = System.getenv(STORE);
        Provenance provenance = Provenance.of(device);
        KernelRun run;
        try {
            run = measure(device, provenance, kernels);
        } catch (RuntimeException e) {
            if (folder == null && Status.of(e) == Status.OOM) {
                return stored(Project.path(STORED.toString()));
            }
            throw e;
        }
        if (folder != null) {
            store(run, Measurements.of(Path.of(folder), provenance.machine(), PROBLEM), provenance);
        }
        return run;
    }

    /** Returns the stored execution, or a result that says in one line why there is none. */
    KernelRun stored(Path csv) throws IOException {
        return KernelRun.stored(csv, name, inputs());
    }

    void store(KernelRun run, Measurements measurements, Provenance provenance) throws IOException {
        Case c = Case.measuredHere("cs336")
                .with("cell", name)
                .with("inputs", run.inputs())
                .with("launches", run.launches());
        measurements.put(c, run.rows(), provenance);
    }

    private String inputs() {
        return dtype
                + Arrays.stream(shapes)
                        .map(shape -> Arrays.stream(shape)
                                .mapToObj(String::valueOf)
                                .collect(Collectors.joining("×", " [", "]")))
                        .collect(Collectors.joining());
    }

    KernelRun measure(Device device, Provenance provenance, UnaryOperator<Tensor[]> kernels) {
        if (reference == null || unit == null) {
            throw new IllegalStateException(name + " needs a reference, and bytes or FLOPs");
        }
        try (var scope = MemoryScope.open()) {
            Tensor[] inputs = new Tensor[shapes.length];
            for (int i = 0; i < inputs.length; i++) {
                inputs[i] =
                        torch.randn(shapes[i], device.options(DType.FLOAT32)).to(dtype.scalarType());
            }
            Map<String, KernelLogEntry> launched = new LinkedHashMap<>();
            List<Measurement> rows = new ArrayList<>();
            try (var log = KernelLog.open()) {
                rows.addAll(compare(inputs, kernels));
                log.entries().stream()
                        .filter(entry -> entry.route() == Route.KERNEL)
                        .forEach(entry -> launched.putIfAbsent(entry.name(), entry));
            }
            launched.values().forEach(entry -> rows.addAll(resources(entry)));
            Samples time = DoBench.on(device).time(KernelRun.TIME, () -> kernels.apply(inputs));
            rows.add(Measurement.of(time));
            rows.add(once(KernelRun.RATE, unit, work / (time.summary().median() / 1e3)));
            String launches = launched.values().stream()
                    .map(entry -> entry.name() + entry.detail().replaceFirst(" on .*", ""))
                    .collect(Collectors.joining("; "));
            return new KernelRun(inputs(), launches, KernelRun.origin("measured now", provenance), rows);
        }
    }

    /** Runs the kernels once and returns the rows of their outputs. */
    private List<Measurement> compare(Tensor[] inputs, UnaryOperator<Tensor[]> kernels) {
        try (var scope = MemoryScope.open()) {
            Tensor[] found = kernels.apply(inputs);
            Tensor[] wide = Arrays.stream(inputs)
                    .map(input -> input.to(DType.FLOAT64.scalarType()))
                    .toArray(Tensor[]::new);
            Tensor[] expected = reference.apply(wide);
            if (found.length != outputs.size() || expected.length != outputs.size()) {
                throw new IllegalStateException(name + " has the outputs " + outputs + ", but the kernels return "
                        + found.length + " and the reference " + expected.length);
            }
            List<Measurement> rows = new ArrayList<>();
            try (var noGrad = NoGrad.open()) {
                for (int i = 0; i < found.length; i++) {
                    rows.addAll(compare(outputs.get(i), found[i].detach(), expected[i].detach()));
                }
            }
            return rows;
        }
    }

    private List<Measurement> compare(String output, Tensor found, Tensor expected) {
        double difference =
                found.to(DType.FLOAT64.scalarType()).sub(expected).abs().max().item_double();
        double largest = expected.abs().max().item_double();
        double allowed = dtype == DType.FLOAT32 ? FP32_TOLERANCE : NARROW_TOLERANCE;
        if (!(difference <= allowed * largest)) {
            throw new IllegalStateException(String.format(
                    Locale.ROOT,
                    "%s: %s differs from fp64 by %.3g, its largest value is %.3g",
                    name,
                    output,
                    difference,
                    largest));
        }
        List<Measurement> rows = new ArrayList<>();
        rows.add(once(output + KernelRun.DIFFERENCE, "", difference));
        rows.add(once(output + KernelRun.LARGEST, "", largest));
        Tensor flat = found.reshape(-1);
        for (int i = 0; i < Math.min(SHOWN_VALUES, flat.numel()); i++) {
            rows.add(once(output + KernelRun.VALUE + i, "", flat.select(0, i).item_double()));
        }
        return rows;
    }

    private static List<Measurement> resources(KernelLogEntry launch) {
        KernelResources used = launch.resources();
        return List.of(
                once(launch.name() + KernelRun.REGISTERS, "", used.registers()),
                once(launch.name() + KernelRun.SHARED, "bytes", used.sharedBytes()),
                once(launch.name() + KernelRun.SPILLS, "bytes", used.spillStores() + used.spillLoads()));
    }
}
