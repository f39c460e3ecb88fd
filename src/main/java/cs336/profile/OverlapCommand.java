package cs336.profile;

import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code cs336 overlap}: how much of communication is hidden behind computation, from traces. */
@Command(
        name = "overlap",
        description = {
            "Shows how much of communication is hidden behind computation, and where the time of each device went, step by step.",
            "Reads the traces that this program's profiler, PyTorch's in Python, and Kineto elsewhere write: one file a rank, .json or"
                    + " .json.gz. A device is a card or, where no card worked, the threads of the process."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  A table:",
            "    cs336 overlap rank0.json.gz rank1.json.gz",
            "  A table, and a picture of the last step on both ranks:",
            "    cs336 overlap rank0.json.gz rank1.json.gz --figure target/overlap",
            "",
            "overlap ratio: time communicating while computing / time communicating; none where nothing was communicated.",
            "The four shares add up to the step: communication there is what computation does not hide.",
            "",
            "Exit codes: 0 done, 1 a file cannot be read or written, 2 wrong use or a file that is no trace."
        })
public final class OverlapCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(arity = "1..*", paramLabel = "TRACE", description = "the ranks' traces, in the order of ranks")
    private List<Path> files;

    @Option(names = "--last", description = "the last step of each trace alone")
    private boolean last;

    @Option(
            names = "--figure",
            paramLabel = "<folder>",
            description = "draw the last step of all ranks there, as overlap.svg")
    private Path folder;

    @Option(
            names = "--levels",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "levels of ranges inside ranges in the picture. Default: ${DEFAULT-VALUE}")
    private int levels;

    /** Made by picocli. */
    public OverlapCommand() {}

    @Override
    public Integer call() throws IOException {
        try {
            Map<String, Trace> traces = read();
            OverlapTable table = OverlapTable.of(traces);
            if (table.rows().isEmpty()) throw new IllegalArgumentException("the traces have no events");
            spec.commandLine().getOut().println(last ? table.lastSteps() : table);
            spec.commandLine().getOut().flush();
            if (folder != null) {
                Timeline.ofRanks(traces)
                        .lastStep()
                        .levels(levels)
                        .figure("overlap", "Computation and communication of each rank in one step")
                        .save(folder);
            }
            return 0;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /** Each trace under its file's name without ending, or under its path where names are equal. */
    private Map<String, Trace> read() throws IOException {
        long names = files.stream().map(OverlapCommand::name).distinct().count();
        var traces = new LinkedHashMap<String, Trace>();
        for (Path file : files) {
            String name = names == files.size() ? name(file) : file.toString();
            if (traces.put(name, Trace.read(file)) != null) {
                throw new IllegalArgumentException(
                        "TRACE " + file + " is given twice; each rank has a file of its own");
            }
        }
        return traces;
    }

    private static String name(Path file) {
        return file.getFileName().toString().replaceFirst("(\\.pt\\.trace)?\\.json(\\.gz)?$", "");
    }
}
