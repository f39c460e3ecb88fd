package cs336.scaling.laws;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.WholeFile;
import cs336.numbers.CalculatedResults;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Visibility;
import picocli.CommandLine.Option;

/** The command {@code isoflops}: fits scaling laws to training runs of several compute budgets. */
@Command(
        name = "isoflops",
        description = {
            "Finds the compute-optimal numbers of parameters and tokens from training runs of several compute budgets, by"
                    + " three methods: the run with the lowest loss of each budget; the minimum of a parabola through each"
                    + " budget's losses (both followed by a linear fit in logarithms); and a loss surface fitted to all"
                    + " runs."
                    + " Confidence intervals come from a bootstrap.",
            "A file of runs is a JSON array of objects {\"parameters\": 75000000, \"compute_budget\": 1e18, \"final_loss\":"
                    + " 3.549787}: number of parameters, FLOP, and nats per token."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "    ./cs336 isoflops",
            "    ./cs336 isoflops --runs mine.json --compute 1e22,1e23 --confidence 0.8",
            "  Runs whose budgets differ:",
            "    ./cs336 isoflops --runs mine.json --method loss-surface",
            "  The results in the writeup, stored under the names 'shipped' and 'published' (the course's file):",
            "    ./cs336 isoflops --runs " + SyntheticRuns.FILE + " --store shipped",
            "    ./cs336 isoflops --runs " + IsoFlops.COURSE_FILE + " --store published",
            "    ./cs336 isoflops --coverage 500 --resamples 400 --store shipped",
            "  The synthetic runs of the repository, byte for byte, and runs with other noise:",
            "    ./cs336 isoflops --generate " + SyntheticRuns.FILE,
            "    ./cs336 isoflops --generate target/other.json --seed 1",
            "",
            "Exit codes: 0 done, 1 a file cannot be read or written, 2 invalid arguments or a file without valid runs."
        })
public final class IsoFlopsCommand extends LabCommand {
    @Option(
            names = "--runs",
            paramLabel = "<file>",
            description = "file of training runs. Default: the course's file " + IsoFlops.COURSE_FILE
                    + " if it exists (it is not part of this repository), otherwise the synthetic runs "
                    + SyntheticRuns.FILE)
    private Path runs;

    @Option(
            names = "--method",
            split = ",",
            paramLabel = "<method>",
            description = "lowest-run, quadratic-minima, loss-surface. The first two need at least three budgets with"
                    + " three model sizes each; loss-surface needs six runs of any budgets. Default: all",
            showDefaultValue = Visibility.NEVER)
    private List<String> methods = List.of();

    @Option(
            names = "--compute",
            split = ",",
            defaultValue = "1e23,1e24",
            paramLabel = "<FLOP>",
            description = "compute budgets for which the optimal sizes are predicted")
    private List<Double> budgets;

    @Option(
            names = "--confidence",
            defaultValue = "0.95",
            paramLabel = "<fraction>",
            description = "confidence of the intervals, between 0 and 1")
    private double confidence;

    @Option(
            names = "--resamples",
            defaultValue = "1000",
            paramLabel = "<n>",
            description = "number of bootstrap resamples")
    private int resamples;

    @Option(
            names = "--seed",
            defaultValue = "336",
            paramLabel = "<seed>",
            description = "seed of the bootstrap, or of the noise of generated runs")
    private long seed;

    @Option(
            names = "--store",
            paramLabel = "<name>",
            description =
                    "store the results under this name, in isoflops_laws.csv and isoflops_optima.csv, in place of all"
                            + " earlier results of the name")
    private String name;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description =
                    "folder of the measurements of all machines. Results are stored in its folder 'any', because they"
                            + " depend on no machine.")
    private Path output;

    @Option(
            names = "--generate",
            paramLabel = "<file>",
            description = "write synthetic runs to this file instead, with noise from --seed")
    private Path generated;

    @Option(
            names = "--coverage",
            paramLabel = "<sets>",
            description = "fit this many generated sets of runs instead, and count how often the intervals contain the"
                    + " true values; --store writes isoflops_coverage.csv")
    private Integer sets;

    @Override
    public Integer call() throws IOException {
        return checked(() -> {
            if (generated != null) {
                generate();
                out().flush();
                return 0;
            }
            ArgumentCheck.notEmpty("--output", output);
            if (name == null) {
                requireNotGiven("without --store", "--output");
            } else {
                requireName();
                ArgumentCheck.writableFolder("--output", output);
            }
            if (sets != null) {
                coverage().write(out(), name, results("isoflops_coverage"));
            } else {
                fit();
            }
            out().flush();
            return 0;
        });
    }

    private void generate() throws IOException {
        requireNotGiven(
                "with --generate",
                "--runs",
                "--method",
                "--compute",
                "--confidence",
                "--resamples",
                "--store",
                "--output",
                "--coverage");
        ArgumentCheck.writableFile("--generate", generated);
        SyntheticRuns synthetic = SyntheticRuns.SHIPPED.seeded(seed);
        LossSurface surface = synthetic.surface();
        IsoFlops drawn = synthetic.draw();
        WholeFile.write(generated, drawn.json());
        out().printf(
                        Locale.ROOT,
                        "%,d runs with noise of %.1f %% on L = E + A / N^alpha + B / D^beta:"
                                + " E %s, A %s, alpha %s, B %s, beta %s%n",
                        drawn.runs().size(),
                        100 * synthetic.noise(),
                        surface.irreducible(),
                        surface.a(),
                        surface.alpha(),
                        surface.b(),
                        surface.beta());
    }

    private CoverageReport coverage() {
        requireNotGiven("with --coverage", "--runs", "--method", "--compute");
        ArgumentCheck.atLeast("--coverage", 1, sets);
        return CoverageReport.of(sets, bootstrap());
    }

    private void fit() throws IOException {
        double[] asked =
                budgets.stream().distinct().mapToDouble(Double::doubleValue).toArray();
        for (double compute : asked) {
            if (!(compute > 0 && Double.isFinite(compute))) {
                throw new IllegalArgumentException("--compute must be finite and above 0 FLOP, not " + compute);
            }
        }
        List<FitMethod> all = List.of(FitMethod.values());
        List<FitMethod> chosen = methods.isEmpty()
                ? all
                : methods.stream()
                        .map(method -> ArgumentCheck.oneOf("--method", method, all))
                        .toList();
        if (name != null && !chosen.containsAll(all)) {
            throw new IllegalArgumentException("--store stores the results of all methods; omit --method");
        }
        if (runs != null) {
            ArgumentCheck.notEmpty("--runs", runs);
        }
        Path file = runs == null ? SyntheticRuns.orCourseFile() : runs;
        if (name != null) {
            WholeFile.requireRegularFile(file); // its checksum is stored
        }
        IsoFlops isoFlops = IsoFlops.read(file);
        Bootstrap bootstrap = bootstrap();
        IsoFlopsStudy study;
        try {
            study = IsoFlopsStudy.of(isoFlops, bootstrap, chosen);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(file + ": " + e.getMessage(), e);
        }
        var report = new FitReport(study, confidence, asked);
        report.print(out(), file);
        if (name != null) {
            report.store(name, file, results("isoflops_laws"), results("isoflops_optima"));
        }
    }

    private Bootstrap bootstrap() {
        try {
            return new Bootstrap(confidence, resamples, seed);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("--" + e.getMessage(), e); // begins with the name of a component
        }
    }

    private CalculatedResults results(String problem) {
        return new CalculatedResults(output, "any", problem);
    }

    private void requireName() {
        if (!name.matches("[A-Za-z0-9][A-Za-z0-9_-]*")) {
            throw new IllegalArgumentException("--store must be letters, digits, '_' and '-', not '" + name + "'");
        }
    }
}
