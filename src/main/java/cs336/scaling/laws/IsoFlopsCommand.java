package cs336.scaling.laws;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.torch.Device;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Fits scaling laws to training runs of several compute budgets, or writes the repository's own set of such runs. */
@Command(
        name = "isoflops",
        description = {
            "Finds the compute-optimal sizes of model and data from training runs of several budgets: by the lowest run of each"
                    + " budget, by the minimum of a parabola through each budget's losses (both followed by a line in logarithms),"
                    + " and by a loss surface through all runs. Intervals by bootstrap.",
            "A file of runs is a JSON array of {\"parameters\": 75000000, \"compute_budget\": 1e18, \"final_loss\": 3.549787}: a"
                    + " number, FLOP, and nats a token."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "    cs336 isoflops",
            "    cs336 isoflops --runs mine.json --compute 1e22,1e23 --confidence 0.8",
            "  What the writeup shows, stored under the name 'shipped':",
            "    cs336 isoflops --store shipped",
            "    cs336 isoflops --coverage 500 --resamples 400 --store shipped",
            "  The repository's own runs, byte for byte, and the same with other noise:",
            "    cs336 isoflops --generate data/isoflops_curves.json",
            "    cs336 isoflops --generate target/other.json --seed 1",
            "",
            "Exit codes: 0 done, 1 a file cannot be read or written, 2 wrong use or a file that holds no such runs."
        })
public final class IsoFlopsCommand implements Callable<Integer> {
    /** Where the laws are stored beside the budgets asked for, so that a figure can draw them. */
    private static final double[] DECADES = {1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24};

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--runs",
            defaultValue = "data/isoflops_curves.json",
            paramLabel = "<file>",
            description = "the training runs. Default: ${DEFAULT-VALUE}")
    private Path runs;

    @Option(
            names = "--compute",
            split = ",",
            defaultValue = "1e23,1e24",
            paramLabel = "<FLOP>",
            description = "budgets to predict for. Default: ${DEFAULT-VALUE}")
    private List<Double> budgets;

    @Option(
            names = "--confidence",
            defaultValue = "0.95",
            paramLabel = "<share>",
            description = "how often an interval should hold the truth. Default: ${DEFAULT-VALUE}")
    private double confidence;

    @Option(
            names = "--resamples",
            defaultValue = "1000",
            paramLabel = "<n>",
            description = "how often the bootstrap fits again. Default: ${DEFAULT-VALUE}")
    private int resamples;

    @Option(
            names = "--seed",
            defaultValue = "336",
            paramLabel = "<seed>",
            description = "of the bootstrap, or of the noise of generated runs. Default: ${DEFAULT-VALUE}")
    private long seed;

    @Option(
            names = "--store",
            paramLabel = "<name>",
            description =
                    "stores the results under this name for the runs, in isoflops_laws.csv and isoflops_optima.csv")
    private String name;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description =
                    "where they are stored, in its folder 'any': they depend on no machine. Default: ${DEFAULT-VALUE}")
    private Path output;

    @Option(
            names = "--generate",
            paramLabel = "<file>",
            description = "writes the repository's own runs to this file instead, with noise of this --seed")
    private Path generated;

    @Option(
            names = "--coverage",
            paramLabel = "<sets>",
            description = "fits so many generated sets instead, and counts how often the intervals hold the truth"
                    + " (stored in isoflops_coverage.csv)")
    private Integer sets;

    @Override
    public Integer call() throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        try {
            if (generated != null) {
                generate(out);
            } else if (sets != null) {
                cover(out);
            } else {
                fit(out);
            }
            out.flush();
            return 0;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private void generate(PrintWriter out) throws IOException {
        if (sets != null) throw new IllegalArgumentException("--generate cannot go with --coverage");
        SyntheticRuns synthetic = SyntheticRuns.SHIPPED.seeded(seed);
        LossSurface surface = synthetic.surface();
        IsoFlops drawn = synthetic.draw();
        Files.writeString(generated, drawn.json());
        out.printf(
                Locale.ROOT,
                "%d runs with noise of %.1f %% on L = E + A / N^alpha + B / D^beta: E %s, A %s, alpha %s, B %s, beta %s%n",
                drawn.runs().size(),
                100 * synthetic.noise(),
                surface.irreducible(),
                surface.a(),
                surface.alpha(),
                surface.b(),
                surface.beta());
    }

    private void cover(PrintWriter out) throws IOException {
        requireName();
        var bootstrap = new Bootstrap(confidence, resamples, seed);
        double farthest = DECADES[DECADES.length - 1];
        PowerLaw truth = SyntheticRuns.SHIPPED.surface().law();
        var counted = Coverage.of(SyntheticRuns.SHIPPED, sets, farthest, bootstrap);
        out.printf("%d sets, intervals of %.0f %% that hold the truth:%n", sets, 100 * confidence);
        for (FitMethod method : FitMethod.values()) {
            Coverage coverage = counted.get(method);
            out.printf(
                    "%-16s  exponent %.1f %%  size at %s %.1f %%%n",
                    method, 100 * coverage.ofExponents(), IsoFlops.flop(farthest), 100 * coverage.ofParameters());
            if (name == null) continue;
            Provenance provenance = provenance();
            Case c = Case.measuredHere(method.toString()).with("runs", name).with("confidence", confidence);
            List<Measurement> rows = new ArrayList<>();
            add(rows, "sets", "", sets);
            add(rows, "exponent", "", coverage.ofExponents());
            add(rows, "parameters", "", coverage.ofParameters());
            add(rows, "true-parameters", "parameters", truth.at(farthest).parameters());
            Measurements.of(output, provenance.machine(), "isoflops_coverage").put(c, rows, provenance);
        }
    }

    private static Provenance provenance() {
        return Provenance.of(Device.cpu()).named("any");
    }

    private void requireName() {
        if (name != null && !name.matches("[A-Za-z0-9][A-Za-z0-9_-]*")) {
            throw new IllegalArgumentException("--store must be letters, digits, '_' and '-', not '" + name + "'");
        }
    }

    private void fit(PrintWriter out) throws IOException {
        requireName();
        double[] asked = budgets.stream().mapToDouble(Double::doubleValue).toArray();
        for (double compute : asked) {
            if (!(compute > 0 && Double.isFinite(compute))) {
                throw new IllegalArgumentException("--compute must be above 0 FLOP, not " + compute);
            }
        }
        var bootstrap = new Bootstrap(confidence, resamples, seed);
        IsoFlopsStudy study = IsoFlopsStudy.of(IsoFlops.read(runs), bootstrap);
        out.printf(
                "%d runs of %d budgets. Noise: the losses deviate from a surface by %.2g %%.%n%n",
                study.runs().runs().size(),
                study.runs().profiles().size(),
                100 * study.surface().deviation());
        out.println("Minima in 1e9 parameters; 'as low' are the runs that noise does not let tell from the lowest:");
        out.println(AlignedText.of(study.minima()));
        study.remarks().forEach(out::println);
        out.printf("%nN = k * C^a, intervals of %.0f %%:%n", 100 * confidence);
        out.println(AlignedText.of(study.exponents()));
        out.println();
        out.println(AlignedText.of(study.predictions(asked)));
        if (name != null) store(study, asked);
    }

    private void store(IsoFlopsStudy study, double[] asked) throws IOException {
        Provenance provenance = provenance();
        Measurements laws = Measurements.of(output, provenance.machine(), "isoflops_laws");
        Measurements optima = Measurements.of(output, provenance.machine(), "isoflops_optima");
        String fingerprint = fingerprint(runs);
        for (FitMethod method : FitMethod.values()) {
            Case law = Case.measuredHere(method.toString())
                    .with("runs", name)
                    .with("sha256", fingerprint)
                    .with("confidence", confidence);
            laws.put(law, laws(study, method), provenance);
            var computes = new TreeSet<Double>();
            for (double compute : asked) computes.add(compute);
            for (double compute : DECADES) computes.add(compute);
            study.runs().profiles().forEach(profile -> computes.add(profile.compute()));
            for (double compute : computes) {
                Case optimum =
                        Case.measuredHere(method.toString()).with("runs", name).with("compute", IsoFlops.flop(compute));
                optima.put(optimum, optimum(study, method, compute), provenance);
            }
        }
    }

    /** The law, and for a line how far its points lie from it, for a surface its five numbers. */
    private static List<Measurement> laws(IsoFlopsStudy study, FitMethod method) {
        ScalingFit fit = study.fit(method);
        Interval exponent = fit.exponent();
        List<Measurement> rows = new ArrayList<>();
        add(rows, "runs", "", study.runs().runs().size());
        add(rows, "budgets", "", study.runs().profiles().size());
        add(rows, "exponent", "", fit.law().exponent());
        add(rows, "exponent-low", "", exponent.low());
        add(rows, "exponent-high", "", exponent.high());
        add(rows, "coefficient", "", fit.law().coefficient());
        if (fit instanceof LineFit line) add(rows, "deviation", "", line.deviation());
        if (fit instanceof SurfaceFit of) {
            LossSurface surface = of.surface();
            add(rows, "deviation", "", of.deviation());
            add(rows, "E", "", surface.irreducible());
            add(rows, "A", "", surface.a());
            add(rows, "alpha", "", surface.alpha());
            add(rows, "B", "", surface.b());
            add(rows, "beta", "", surface.beta());
        }
        return rows;
    }

    /**
     * What the law says of a budget. Where there were runs of it, also the minimum that they gave, and by the surface
     * how many of them noise does not let tell from the lowest.
     */
    private static List<Measurement> optimum(IsoFlopsStudy study, FitMethod method, double compute) {
        ScalingFit fit = study.fit(method);
        Optimum optimum = fit.law().at(compute);
        Interval parameters = fit.parameters(compute);
        Interval tokens = fit.tokens(compute);
        List<Measurement> rows = new ArrayList<>();
        add(rows, "parameters", "parameters", optimum.parameters());
        add(rows, "parameters-low", "parameters", parameters.low());
        add(rows, "parameters-high", "parameters", parameters.high());
        add(rows, "tokens", "tokens", optimum.tokens());
        add(rows, "tokens-low", "tokens", tokens.low());
        add(rows, "tokens-high", "tokens", tokens.high());
        if (method == FitMethod.LOSS_SURFACE) {
            study.runs().profiles().stream()
                    .filter(profile -> profile.compute() == compute)
                    .forEach(profile -> add(
                            rows,
                            "as-low-as-the-lowest",
                            "runs",
                            profile.contenders(study.surface().deviation()).size()));
        }
        if (fit instanceof LineFit line) {
            line.minima().stream()
                    .filter(minimum -> minimum.compute() == compute)
                    .forEach(minimum -> add(rows, "minimum", "parameters", minimum.parameters()));
        }
        return rows;
    }

    private static void add(List<Measurement> rows, String metric, String unit, double value) {
        rows.add(Measurement.of(Samples.once(new Metric(metric, unit), value)));
    }

    /** The first twelve digits of the file's SHA-256, to tell which runs were fitted. */
    private static String fingerprint(Path file) throws IOException {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file));
            return HexFormat.of().formatHex(hash).substring(0, 12);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has it
        }
    }
}
