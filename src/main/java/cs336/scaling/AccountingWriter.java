package cs336.scaling;

import static cs336.numbers.CalculatedResults.number;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.numbers.CalculatedResults;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.units.IntegerMath;
import cs336.units.Tokens;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A writer of the answers to the problem {@code communication_accounting} and to the calculations of 2026, to files and
 * as tables.
 *
 * @param output folder of the measurements of all machines
 * @param out receives the tables
 */
record AccountingWriter(Path output, PrintWriter out) {
    private record AnswerRow(
            String part,
            long tokens,
            @Header("FSDP devices") int fsdp,
            @Header("tensor-parallel devices") int tensor,
            String number,
            String value) {}

    /** Stores all answers and prints them. */
    void write(CommunicationAccounting accounting) throws IOException {
        var stored = new CalculatedResults(output, CalculatedResults.ON_PAPER, "communication_accounting");
        Map<Case, List<Measurement>> cases = new LinkedHashMap<>();
        List<AnswerRow> rows = new ArrayList<>();
        for (var answer : accounting.answers()) {
            AccountingQuantity quantity = answer.quantity();
            Case c = Case.measuredHere("calculator")
                    .with("part", answer.part())
                    .with("tokens", answer.tokens())
                    .with("fsdp", answer.fsdp())
                    .with("tensor", answer.tensor());
            cases.computeIfAbsent(c, key -> new ArrayList<>())
                    .add(number(quantity.metric(), quantity.unit(), answer.value()));
            String value = String.format(Locale.ROOT, "%,.5g %s", answer.value(), quantity.unit());
            rows.add(new AnswerRow(
                    answer.part(), answer.tokens(), answer.fsdp(), answer.tensor(), quantity.metric(), value.strip()));
        }
        for (var entry : cases.entrySet()) {
            stored.put(entry.getKey(), entry.getValue());
        }
        out.println(AlignedText.of(Tables.of(AnswerRow.class, rows)));
        out.printf("stored in %s%n%n", stored.path());
    }

    private record LayerRow(
            String model,
            @Header("data-parallel or FSDP devices") int data,
            @Header("tensor-parallel devices") int tensor,
            String number,
            String value) {}

    /** Stores and prints the calculations on a feed-forward layer of xl and of XXL on H200s. */
    void writeLayers() throws IOException {
        var stored = new CalculatedResults(output, CalculatedResults.ON_PAPER, "parallelism_calculations");
        List<LayerRow> rows = new ArrayList<>();
        var xl = ModelSize.XL.config(ModelEdition.SPRING_2025, 512);
        for (int devices : new int[] {2, 4, 8}) {
            writeLayer(
                    "xl",
                    new FeedForwardParallelism(xl.dModel(), xl.dFf(), Accelerator.H200, devices, 1),
                    stored,
                    rows);
        }
        writeLayer("XXL", new FeedForwardParallelism(16_384, 53_248, Accelerator.H200, 8, 1), stored, rows);
        writeLayer("XXL", new FeedForwardParallelism(16_384, 53_248, Accelerator.H200, 8, 8), stored, rows);
        out.println(AlignedText.of(Tables.of(LayerRow.class, rows)));
        out.printf("stored in %s%n%n", stored.path());
    }

    private static void writeLayer(
            String model, FeedForwardParallelism layer, CalculatedResults stored, List<LayerRow> rows)
            throws IOException {
        Tokens batch = layer.smallestBatch();
        long perDevice = IntegerMath.ceilDiv(batch.count(), layer.dataDevices());
        List<Measurement> numbers = List.of(
                number("intensity", "", layer.device().intensity()),
                number("smallest-batch", "tokens", batch.count()),
                number("smallest-batch-per-shard", "tokens", perDevice),
                number("most-tensor-devices", "", layer.mostTensorDevices()),
                number("forward", "us", layer.forward(batch).us()),
                number("fsdp-forward", "us", layer.fsdpForward().us()),
                number("fsdp-backward", "us", layer.fsdpBackward().us()),
                number(
                        "data-parallel-all-reduce",
                        "us",
                        layer.dataParallelAllReduce().us()),
                number("tensor-all-reduce", "us", layer.tensorAllReduce(batch).us()));
        stored.put(
                Case.measuredHere("calculator")
                        .with("model", model)
                        .with("data", layer.dataDevices())
                        .with("tensor", layer.tensorDevices()),
                numbers);
        for (Measurement each : numbers) {
            double value = each.summary().mean();
            rows.add(new LayerRow(
                    model,
                    layer.dataDevices(),
                    layer.tensorDevices(),
                    each.metric().name(),
                    String.format(Locale.ROOT, "%,.5g %s", value, each.metric().unit())
                            .strip()));
        }
    }
}
