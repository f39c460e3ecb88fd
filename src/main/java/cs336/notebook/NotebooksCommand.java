package cs336.notebook;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.Provenance;
import cs336.torch.Device;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Visibility;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The command {@code notebooks}: executes notebooks without Jupyter. */
@Command(
        name = "notebooks",
        description = "Executes notebooks and writes an executed copy and an HTML page of each.",
        footer = {
            "",
            "Examples:",
            "  All notebooks in notebooks/, and two by the beginnings of their names:",
            "    ./cs336 notebooks",
            "    ./cs336 notebooks 01 05-first-kernel",
            "  A notebook of your own:",
            "    ./cs336 notebooks my/own.ipynb --time-limit 600",
            "  Remove outputs before a commit:",
            "    ./cs336 notebooks --clean",
            "  On a GPU: store the results that notebooks show without a GPU:",
            "    ./cs336 notebooks --store-kernels data/measurements",
            "",
            "Each notebook runs in a separate process. If a cell fails, exceeds the time limit or ends its process, the"
                    + " command names the cell, writes the executed copy and ends with exit code 1."
        })
public final class NotebooksCommand extends LabCommand {
    private static final Path FOLDER = Path.of("notebooks");
    private static final int MOST_JOBS = 4;
    private static final int MAX_TIME_LIMIT = 7 * 24 * 3600;

    @Parameters(
            paramLabel = "NAME",
            arity = "0..*",
            description =
                    "names of notebooks in notebooks/, their beginnings, or notebook files; without names, all notebooks run",
            showDefaultValue = Visibility.NEVER)
    private List<String> names = new ArrayList<>();

    @Option(
            names = "--time-limit",
            paramLabel = "<seconds>",
            defaultValue = "120",
            description = "time limit of each cell")
    private long timeLimit;

    @Option(
            names = "--output",
            paramLabel = "<folder>",
            defaultValue = "target/notebooks",
            description = "folder for the executed copies and HTML pages")
    private Path output;

    @Option(
            names = "--portable",
            description = "use only the imports of IJava, to check that the notebooks import everything else")
    private boolean portable;

    @Option(
            names = "--jobs",
            paramLabel = "<n>",
            description = "number of notebooks that run at the same time. Default: half the number of cores, at most "
                    + MOST_JOBS)
    private Integer jobs;

    @Option(
            names = "--keep-going",
            description =
                    "after a cell fails, execute the following cells and notebooks, too; only the following notebooks"
                            + " if it ends the process or cannot be interrupted. The exit code is 1 then")
    private boolean keepGoing;

    @Option(
            names = "--clean",
            description = "execute nothing; remove outputs, execution counts and metadata that JupyterLab adds")
    private boolean clean;

    @Option(
            names = "--store-kernels",
            paramLabel = "<folder>",
            description =
                    "run only the cells that launch CUDA kernels, on this machine's GPU, and store their results in"
                            + " this folder of measurements; notebooks show those of an H200 on machines without a GPU")
    private Path storedKernels;

    @Override
    public Integer call() throws IOException, InterruptedException {
        List<Path> files = checked(() -> {
            if (timeLimit < 1 || timeLimit > MAX_TIME_LIMIT) {
                throw new IllegalArgumentException(
                        "--time-limit must be from 1 to " + MAX_TIME_LIMIT + " seconds, not " + timeLimit);
            }
            if (jobs == null) {
                jobs = Math.max(1, Math.min(MOST_JOBS, Runtime.getRuntime().availableProcessors() / 2));
            }
            ArgumentCheck.atLeast("--jobs", 1, jobs);
            requireStorableKernels();
            if (clean) {
                requireNotGiven("with --clean", "--portable", "--keep-going", "--jobs", "--time-limit", "--output");
            }
            return clean ? files() : checkedOutput(files());
        });
        if (clean) {
            for (Path file : files) {
                Notebook.read(file).clean(file);
            }
            return 0;
        }
        PrintWriter progress = out();
        Imports imports = portable ? Imports.PORTABLE : Imports.GENEROUS;
        try {
            new NotebookRunner(imports, Duration.ofSeconds(timeLimit), jobs, output, progress)
                    .storingKernels(storedKernels)
                    .keepGoing(keepGoing)
                    .run(files);
            progress.println("executed copies and pages: " + output);
            progress.flush();
            return 0;
        } catch (NotebookFailure failure) {
            report(failure);
            for (Throwable other : failure.getSuppressed()) {
                report(other);
            }
            return 1;
        }
    }

    private void requireStorableKernels() throws IOException {
        if (storedKernels == null) {
            return;
        }
        requireNotGiven("with --store-kernels", "--clean");
        if (!Device.best().isCuda()) {
            throw new IllegalArgumentException("--store-kernels needs a GPU");
        }
        String commit = Provenance.commitHere();
        if (Provenance.isDirty(commit)) {
            throw new IllegalArgumentException(
                    "--store-kernels needs a commit that contains the kernels; files differ from " + commit);
        }
        ArgumentCheck.writableFolder("--store-kernels", storedKernels);
        jobs = 1; // concurrent notebooks would disturb each other's times
    }

    private void report(Throwable error) {
        PrintWriter errors = spec.commandLine().getErr();
        errors.println(error.getMessage());
        if (error instanceof NotebookFailure failure) {
            failure.report().stream().skip(1).forEach(errors::println);
        }
        errors.flush();
    }

    /** Checks that executed copies replace neither a notebook nor each other. */
    private List<Path> checkedOutput(List<Path> files) throws IOException {
        if (output.toString().isEmpty() || Files.exists(output) && !Files.isDirectory(output)) {
            throw new IllegalArgumentException("--output must be a folder, not '" + output + "'");
        }
        Map<String, Path> fileOfName = new HashMap<>();
        for (Path file : files) {
            Path copy = output.resolve(file.getFileName());
            if (Files.exists(copy) && Files.isSameFile(copy, file)) {
                throw new IllegalArgumentException("--output must not be the folder of the notebook " + file);
            }
            Path other = fileOfName.put(file.getFileName().toString(), file);
            if (other != null) {
                throw new IllegalArgumentException(
                        "notebooks must have different names, not " + other + " and " + file);
            }
        }
        return files;
    }

    /** Returns the notebook with this name; if there is none, the notebooks whose names begin with it. */
    private static List<Path> inFolder(String name, List<Path> all) {
        String wanted = name.replaceFirst("\\.ipynb$", "");
        List<Path> beginning = new ArrayList<>();
        for (Path file : all) {
            if (Notebook.name(file).equals(wanted)) {
                return List.of(file);
            }
            if (!wanted.isEmpty() && Notebook.name(file).startsWith(wanted)) {
                beginning.add(file);
            }
        }
        return beginning;
    }

    private static String unknown(String name, List<Path> beginning, List<Path> all) {
        if (Files.isDirectory(Path.of(name))) {
            return name + " is a folder; name its notebooks, as in "
                    + Path.of(name).resolve("*.ipynb");
        }
        if (name.endsWith(".ipynb")) {
            return "there is no file " + name;
        }
        return beginning.isEmpty()
                ? "notebook '" + name + "' is unknown; known: " + (all.isEmpty() ? "none" : listed(all))
                : "notebook '" + name + "' is ambiguous: " + listed(beginning);
    }

    private static String listed(List<Path> files) {
        return files.stream().map(Notebook::name).collect(Collectors.joining(", "));
    }

    private List<Path> files() throws IOException {
        List<Path> all = Notebook.in(FOLDER);
        if (names.isEmpty()) {
            if (all.isEmpty()) {
                throw new IllegalArgumentException("no notebooks in " + FOLDER.toAbsolutePath());
            }
            return all;
        }
        List<Path> files = new ArrayList<>();
        for (String name : names) {
            Path file = Path.of(name);
            if (Files.isRegularFile(file)) {
                files.add(file);
                continue;
            }
            List<Path> inFolder = inFolder(name, all);
            if (inFolder.size() != 1) {
                throw new IllegalArgumentException(unknown(name, inFolder, all));
            }
            files.addAll(inFolder);
        }
        return files.stream().distinct().toList();
    }
}
