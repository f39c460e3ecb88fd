package cs336.scaling;

import static cs336.scaling.CalculatedResults.number;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A writer of the answers to the problem {@code communication_accounting}, to a file and as a table.
 *
 * @param output folder of the measurements of all machines
 * @param out receives the table
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
            Case c = Case.measuredHere("calculator")
                    .with("part", answer.part())
                    .with("tokens", answer.tokens())
                    .with("fsdp", answer.fsdp())
                    .with("tensor", answer.tensor());
            cases.computeIfAbsent(c, key -> new ArrayList<>())
                    .add(number(answer.name(), answer.unit(), answer.value()));
            String value = String.format(Locale.ROOT, "%,.5g %s", answer.value(), answer.unit());
            rows.add(new AnswerRow(
                    answer.part(), answer.tokens(), answer.fsdp(), answer.tensor(), answer.name(), value.strip()));
        }
        for (var entry : cases.entrySet()) {
            stored.put(entry.getKey(), entry.getValue());
        }
        out.println(AlignedText.of(Tables.of(AnswerRow.class, rows)));
        out.printf("stored in %s%n%n", stored.path());
    }
}
