package cs336.scaling;

import static cs336.numbers.CalculatedResults.number;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.numbers.CalculatedResults;
import cs336.numbers.Tables;
import cs336.scaling.ScaleOutStudy.FittedNumbers;
import cs336.scaling.ScaleOutStudy.PredictedAllReduce;
import cs336.scaling.ScaleOutStudy.PredictedStep;
import cs336.scaling.ScaleOutStudy.ScaleOutPoint;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/**
 * A writer of the predictions of a {@link ScaleOutStudy}, to files and as tables.
 *
 * @param output folder of the measurements of all machines
 * @param out receives the tables
 */
record ScaleOutWriter(Path output, PrintWriter out) {
    /**
     * Replaces the stored predictions and prints the new ones.
     *
     * @throws IllegalArgumentException if a measurement is missing; the stored predictions are then unchanged
     */
    void write(ScaleOutStudy study) throws IOException {
        List<PredictedStep> steps = study.predictedSteps();
        List<ScaleOutPoint> points = study.scaleOut();
        List<PredictedAllReduce> allReduces = study.predictedAllReduces();
        List<FittedNumbers> fits = study.fittedNumbers();
        store(
                "scaling_predictions",
                PredictedStep.class,
                steps,
                step -> Case.measuredHere("simulated")
                        .with("size", step.size())
                        .with("processes", step.processes())
                        .with("mode", step.mode())
                        .with("bucket_mb", step.bucketMb())
                        .with("fitted", step.fitted()),
                step -> comparison(step.measured(), step.predicted(), step.error()));
        store(
                "scaling_out",
                ScaleOutPoint.class,
                points,
                point -> Case.measuredHere("simulated")
                        .with("model", point.model())
                        .with("strategy", point.strategy())
                        .with("devices", point.devices()),
                point -> List.of(number("step", "ms", point.step()), number("useful", "%", point.useful())));
        store(
                "scaling_all_reduces",
                PredictedAllReduce.class,
                allReduces,
                allReduce -> Case.measuredHere("simulated")
                        .with("processes", allReduce.processes())
                        .with("megabytes", allReduce.megabytes()),
                allReduce -> comparison(allReduce.measured(), allReduce.predicted(), allReduce.error()));
        store(
                "scaling_fit",
                FittedNumbers.class,
                fits,
                fit -> Case.measuredHere("fitted").with("from", fit.from()),
                ScaleOutWriter::fitted);
    }

    private <R extends Record> void store(
            String problem,
            Class<R> type,
            List<R> records,
            Function<R, Case> parameters,
            Function<R, List<Measurement>> numbers)
            throws IOException {
        var stored = new CalculatedResults(output, CalculatedResults.ON_PAPER, problem);
        stored.clear();
        for (R each : records) {
            stored.put(parameters.apply(each), numbers.apply(each));
        }
        out.println(AlignedText.of(Tables.of(type, records)));
        out.printf("stored in %s%n%n", stored.path());
    }

    private static List<Measurement> comparison(double measured, double predicted, double error) {
        return List.of(
                number("measured", "ms", measured), number("predicted", "ms", predicted), number("off", "%", error));
    }

    private static List<Measurement> fitted(FittedNumbers fit) {
        List<Measurement> numbers = new ArrayList<>();
        numbers.add(number("bandwidth", "GB/s", fit.bandwidth()));
        numbers.add(number("launch", "us", fit.launch()));
        if (fit.each() != null) {
            numbers.add(number("each", "us", fit.each()));
            numbers.add(number("copy", "ms", fit.copy()));
            numbers.add(number("start", "us", fit.start()));
            numbers.add(number("slowdown", "%", fit.slowdown()));
        }
        return numbers;
    }
}
