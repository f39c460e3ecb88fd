package cs336.profile;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The command {@code overlap}: computes the overlap of communication and computation from traces. */
@Command(
        name = "overlap",
        description = {
            "Shows for each step how much communication is hidden behind computation and how the time of each device divides into"
                    + " computation, communication, copies and idle time.",
            "Reads Kineto traces (.json or .json.gz), one file per rank, written by this program's profiler or by PyTorch's profiler in"
                    + " Python. A device is a GPU or, in traces without GPU work, the threads of the process."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A table:",
            "    ./cs336 overlap rank0.json.gz rank1.json.gz",
            "  A table and a figure of the last step on both ranks:",
            "    ./cs336 overlap rank0.json.gz rank1.json.gz --figure target/overlap",
            "",
            "overlap ratio: time with communication and computation / time with communication; empty without communication.",
            "The four percentages sum to 100. Communication there is exposed communication, which computation does not hide.",
            "",
            "Exit codes: 0 done, 1 a file cannot be read or written, 2 invalid arguments or a file that is not a trace."
        })
public final class OverlapCommand extends LabCommand {
    @Parameters(arity = "1..*", paramLabel = "TRACE", description = "the traces of the ranks, in rank order")
    private List<Path> files;

    @Option(names = "--last", description = "show only the last step of each trace")
    private boolean last;

    @Option(
            names = "--figure",
            paramLabel = "<folder>",
            description = "draw the last step of all ranks as overlap.svg in this folder")
    private Path folder;

    @Option(
            names = "--levels",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "levels of nested ranges in the figure")
    private int levels;

    @Override
    public Integer call() throws IOException {
        return checked(() -> {
            ArgumentCheck.atLeast("--levels", 0, levels);
            if (folder != null) {
                ArgumentCheck.writableFolder("--figure", folder);
            } else if (spec.commandLine().getParseResult().hasMatchedOption("--levels")) {
                throw new IllegalArgumentException("--levels has no effect without --figure");
            }
            Map<String, Trace> traces = read();
            OverlapTable table = OverlapTable.of(traces);
            out().println(last ? table.lastSteps() : table);
            out().flush();
            if (folder != null) {
                Timeline.ofRanks(traces)
                        .lastStep()
                        .levels(levels)
                        .figure("overlap", "Computation and communication of each rank in one step")
                        .save(folder);
            }
            return 0;
        });
    }

    /** Returns the traces by file name without ending, or by path if two file names are equal. */
    private Map<String, Trace> read() throws IOException {
        long names = files.stream().map(OverlapCommand::name).distinct().count();
        var traces = new LinkedHashMap<String, Trace>();
        for (Path file : files) {
            String name = names == files.size() ? name(file) : file.toString();
            Trace trace = Trace.read(file);
            if (Activity.of(trace).isEmpty()) {
                throw new IllegalArgumentException("TRACE " + file + " has no events");
            }
            if (traces.put(name, trace) != null) {
                throw new IllegalArgumentException("TRACE " + file + " is given twice; each rank has its own file");
            }
        }
        return traces;
    }

    private static String name(Path file) {
        return String.valueOf(file.getFileName()).replaceFirst("(\\.pt\\.trace)?\\.json(\\.gz)?$", "");
    }
}
