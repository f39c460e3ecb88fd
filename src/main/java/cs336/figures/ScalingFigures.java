package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.profile.Timeline.Bar;
import cs336.profile.Timeline.Lane;
import cs336.profile.TimelinePanel;
import cs336.scaling.Accelerator;
import cs336.scaling.CommunicationAccounting;
import cs336.scaling.ComputeBound;
import cs336.scaling.ScaleOutStudy;
import cs336.scaling.Schedule;
import cs336.scaling.SimulatedStep;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/** The figures of the chapter on parallelism accounting: from closed forms and from simulated training steps. */
public final class ScalingFigures {
    private static final List<String> KINDS = List.of("forward", "backward", "optimizer", "copy", "gather", "reduce");

    private ScalingFigures() {}

    /**
     * The time that gradient averaging adds to a training step of the xl model on four GPUs, in milliseconds.
     *
     * @param mode mode of data parallelism
     * @param bucketMb bucket size in MB (10⁶ bytes); 0 without buckets
     * @param measured measured time
     * @param predicted simulated time
     */
    public record CommunicationTime(String mode, double bucketMb, double measured, double predicted) {}

    /** A bar: the measured or predicted communication time of a mode. */
    private record CommunicationBar(String mode, double ms, String series) {}

    /** Plots the memory per device of the XXL model by number of devices, with half of the activations sharded. */
    public static Figure memory() {
        Map<String, double[]> series = new LinkedHashMap<>();
        double[] devices = {8, 16, 32, 64, 128, 256, 512};
        for (Tokens tokens : CommunicationAccounting.STANDARD.batches()) {
            double[] gb = new double[devices.length];
            for (int i = 0; i < gb.length; i++) {
                gb[i] = CommunicationAccounting.memory(tokens)
                        .perDevice((long) devices[i])
                        .gb();
            }
            series.put(tokens.count() == 1 ? "1 token" : tokens.toString(), gb);
        }
        return Charts.line(Charts.table(devices, series))
                .x("x", "devices")
                .y("y", "memory of a device (GB)")
                .by("series")
                .level(Accelerator.TPU_V5P.memory().gb(), "95 GB")
                .log2X()
                .logY()
                .size(720, 360)
                .figure(
                        "accounting-memory",
                        "Memory of a device by the number of devices that shard the XXL model's state and half of its"
                                + " activations, for batches of 1 to 8,192 tokens; the other half is on every device, so that"
                                + " more devices do not bring large batches below 95 GB");
    }

    /** Plots the smallest compute-bound batch on 64 devices by the width of tensor parallelism. */
    public static Figure batch() {
        int chips = (int) CommunicationAccounting.mesh().chips();
        double[] widths = {1, 2, 4, 8, 16};
        double[] concurrent = new double[widths.length];
        double[] sequential = new double[widths.length];
        for (int i = 0; i < widths.length; i++) {
            ComputeBound given = CommunicationAccounting.mesh();
            int tensor = (int) widths[i];
            var mesh = new ComputeBound(
                    given.dModel(),
                    given.dFf(),
                    given.chip(),
                    chips / tensor,
                    given.fsdpAxes(),
                    tensor,
                    given.tensorAxes());
            concurrent[i] = (double) mesh.batchConcurrent().count() / chips;
            sequential[i] = (double) mesh.batchSequential().count() / chips;
        }
        Map<String, double[]> series = new LinkedHashMap<>();
        series.put("sequential communication", sequential);
        series.put("overlapping communication", concurrent);
        return Charts.line(Charts.table(widths, series))
                .x("x", "tensor-parallel devices Y (X = 64 / Y)")
                .y("y", "tokens per device")
                .by("series")
                .log2X()
                .logY()
                .size(640, 340)
                .figure(
                        "accounting-batch",
                        "The smallest compute-bound batch of the XXL model on 64 devices, in tokens per device, over the width of"
                                + " tensor parallelism: it halves with each doubling if both communications overlap; if"
                                + " they are sequential, the minimum is at 8");
    }

    /**
     * Returns the communication time of each mode of the xl model on four GPUs: measured and predicted steps minus the
     * measured and predicted step without communication.
     *
     * @param predictions {@link ScaleOutStudy#predictions}
     */
    public static List<CommunicationTime> communicationTimes(Table predictions) {
        Table four = predictions.where(predictions
                .stringColumn("size")
                .isEqualTo("xl")
                .and(predictions.intColumn("processes").isEqualTo(4)));
        Row noCommunication =
                four.where(four.stringColumn("mode").isEqualTo("none")).row(0);
        var times = new ArrayList<CommunicationTime>();
        for (Row row : four.where(four.stringColumn("mode").isNotEqualTo("none"))) {
            times.add(new CommunicationTime(
                    row.getString("mode"),
                    row.getDouble("bucket (MB)"),
                    row.getDouble("measured (ms)") - noCommunication.getDouble("measured (ms)"),
                    row.getDouble("predicted (ms)") - noCommunication.getDouble("predicted (ms)")));
        }
        return times;
    }

    /** Plots the {@link #communicationTimes} of each mode. */
    public static Figure predicted(ScaleOutStudy scaling) {
        MeasurementQuery numbers = scaling.numbers().withOwnOrigin();
        Table predictions = new ScaleOutStudy(numbers).predictions();
        var bars = new ArrayList<CommunicationBar>();
        for (CommunicationTime time : communicationTimes(predictions)) {
            String mode = time.bucketMb == 0 ? time.mode : "%,.0f MB".formatted(time.bucketMb);
            bars.add(new CommunicationBar(mode, time.measured, "measured"));
            bars.add(new CommunicationBar(mode, time.predicted, "predicted"));
        }
        return Charts.bar(Tables.of(CommunicationBar.class, bars))
                .x("mode", "strategy")
                .y("ms", "time added to a step (ms)")
                .by("series")
                .size(860, 340)
                .origin(numbers.origin())
                .figure(
                        "scaling-predicted",
                        "Time that gradient communication adds to a training step of the xl model on four H200s, as measured and as"
                                + " predicted from measurements on two, for each strategy and each size of"
                                + " buckets");
    }

    /** Plots the simulated step time of the xl model by number of devices. */
    public static Figure steps(ScaleOutStudy scaling) {
        MeasurementQuery numbers = scaling.numbers().withOwnOrigin();
        Table curves = new ScaleOutStudy(numbers).curves();
        return named(Charts.line(curves.where(curves.stringColumn("model").isEqualTo("xl"))))
                .x("devices", "devices")
                .y("step (ms)", "step (ms)")
                .by("strategy")
                .log2X()
                .logY()
                .size(860, 400)
                .origin(numbers.origin())
                .figure(
                        "scaling-steps",
                        "Simulated time of a training step of the xl model over 8 to 16,384 H200s, "
                                + ScaleOutStudy.ALONE_TOKENS
                                + " each, for several meshes; HSDP is FSDP in groups of 8 and replicas of"
                                + " them");
    }

    /** Plots the percentage of a step that is forward and backward pass by number of devices, for both models. */
    public static Figure useful(ScaleOutStudy scaling) {
        MeasurementQuery numbers = scaling.numbers().withOwnOrigin();
        Table curves = new ScaleOutStudy(numbers).curves();
        return named(Charts.line(curves.where(curves.stringColumn("strategy").isNotEqualTo("ddp-flat"))))
                .x("devices", "devices")
                .y("forward and backward (%)", "forward and backward pass, % of the step")
                .by("strategy")
                .panels("model")
                .rename("xl", "xl, fp32, " + ScaleOutStudy.ALONE_TOKENS + " per GPU")
                .rename("XXL", "XXL, bf16, " + ScaleOutStudy.LARGE_TOKENS + " per GPU")
                .log2X()
                .size(1000, 400)
                .origin(numbers.origin())
                .figure(
                        "scaling-useful",
                        "Percentage of a simulated training step that is forward and backward pass, over 8 to 16,384 H200s, for"
                                + " the xl and the XXL model on several meshes");
    }

    private static Plot named(Plot plot) {
        return plot.rename("ddp-flat", "DDP, flat")
                .rename("ddp", "DDP, buckets")
                .rename("zero-1", "ZeRO-1")
                .rename("fsdp", "FSDP")
                .rename("hsdp", "HSDP")
                .rename("tp-ddp", "TP 8 × DP")
                .rename("fsdp-tp", "FSDP × TP 8")
                .rename("hsdp-tp", "HSDP × TP 8");
    }

    /**
     * Plots the timelines of simulated steps, each with a lane for computation and one for communication.
     *
     * @param name name of the figure
     * @param description description of the figure
     * @param steps steps by the labels of their lanes
     */
    public static Figure timeline(String name, String description, Map<String, SimulatedStep> steps) {
        List<Lane> lanes = new ArrayList<>();
        double longest = 0;
        for (var entry : steps.entrySet()) {
            Schedule schedule = entry.getValue().run();
            longest = Math.max(longest, schedule.finish().ms());
            for (String stream : List.of(SimulatedStep.COMPUTE, SimulatedStep.COMMUNICATION)) {
                List<Bar> bars = schedule.on(stream).stream()
                        .map(span -> new Bar(
                                span.task(),
                                kind(span.task()),
                                0,
                                span.start().ms(),
                                span.end().ms()))
                        .toList();
                lanes.add(new Lane(entry.getKey() + ": " + stream, bars));
            }
        }
        var panel = new TimelinePanel(lanes, KINDS, longest, 1000);
        return new Figure(name, description, 1000, panel.pixels(), List.of(panel));
    }

    private static String kind(String task) {
        if (task.startsWith("all-gather")) {
            return "gather";
        }
        if (task.startsWith("all-reduce") || task.startsWith("reduce-scatter")) {
            return "reduce";
        }
        return task.split(" ")[0];
    }
}
