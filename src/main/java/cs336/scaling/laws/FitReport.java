package cs336.scaling.laws;

import static cs336.numbers.CalculatedResults.number;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.numbers.CalculatedResults;
import java.io.IOException;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * A report on the scaling laws fitted to a set of runs.
 *
 * @param study the runs and the fits
 * @param confidence confidence of the intervals
 * @param budgets budgets in FLOP for which the optimal size is predicted
 */
record FitReport(IsoFlopsStudy study, double confidence, double[] budgets) {
    /** Budgets in FLOP for which the laws are stored in addition to {@code budgets}, so that a figure can draw them. */
    static final double[] DECADES = {1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24};

    /**
     * Prints the minima of each budget if all methods have a fit, the exponents and the predictions.
     *
     * @param file file from which the runs were read
     */
    void print(PrintWriter out, Path file) {
        out.printf("Runs: %s%n", file);
        if (study.methods().size() == FitMethod.values().length) {
            printMinima(out);
        } else {
            out.printf("%,d runs.%n", study.runs().runs().size());
        }
        out.printf("%nN = k * C^a, intervals of %s %%:%n", percent(confidence));
        out.println(AlignedText.of(study.exponents()));
        out.println();
        out.println(AlignedText.of(study.predictions(budgets)));
    }

    private void printMinima(PrintWriter out) {
        out.printf(
                "%,d runs of %d budgets. Noise: the standard deviation of the losses from the surface is %.2g %%.%n%n",
                study.runs().runs().size(),
                study.runs().profiles().size(),
                100 * study.surface().residualStandardDeviation());
        out.println("Minima. The loss of 'tied' runs exceeds the lowest by at most 2 * sqrt(2) times the noise:");
        out.println(AlignedText.of(study.minima()));
        study.remarks().forEach(out::println);
    }

    /** Returns a confidence as a percentage with all digits: 99.9 for 0.999. */
    static String percent(double confidence) {
        return BigDecimal.valueOf(confidence)
                .movePointRight(2)
                .stripTrailingZeros()
                .toPlainString();
    }

    /**
     * Stores the laws of all methods and their predictions, and removes all earlier ones of this name, which may belong
     * to other runs.
     *
     * @param name name of the runs
     * @param file file from which the runs were read
     */
    void store(String name, Path file, CalculatedResults laws, CalculatedResults optima) throws IOException {
        String fingerprint = fingerprint(file);
        var computes = new TreeSet<Double>();
        for (double compute : budgets) {
            computes.add(compute);
        }
        for (double compute : DECADES) {
            computes.add(compute);
        }
        study.runs().profiles().forEach(profile -> computes.add(profile.compute()));
        for (FitMethod method : FitMethod.values()) {
            Case ofName = Case.measuredHere(method.toString()).with("runs", name);
            Case law = ofName.with("sha256", fingerprint).with("confidence", confidence);
            laws.putAll(ofName, Map.of(law, lawNumbers(study.fit(method))));
            var predictions = new LinkedHashMap<Case, List<Measurement>>();
            for (double compute : computes) {
                predictions.put(ofName.with("compute", IsoFlops.flop(compute)), optimumNumbers(method, compute));
            }
            optima.putAll(ofName, predictions);
        }
    }

    /** Returns the numbers of a law: the exponent and, if there is one, the surface. */
    private List<Measurement> lawNumbers(ScalingFit fit) {
        List<Measurement> numbers = new ArrayList<>(List.of(
                number("runs", "", study.runs().runs().size()),
                number("budgets", "", study.runs().profiles().size()),
                number("exponent", "", fit.law().exponent()),
                number("exponent-low", "", fit.exponent().low()),
                number("exponent-high", "", fit.exponent().high()),
                number("coefficient", "", fit.law().coefficient())));
        if (fit instanceof LineFit line) {
            numbers.add(number("deviation", "", line.residualStandardDeviation()));
        }
        if (fit instanceof SurfaceFit of) {
            LossSurface surface = of.surface();
            numbers.addAll(List.of(
                    number("deviation", "", of.residualStandardDeviation()),
                    number("E", "", surface.irreducible()),
                    number("A", "", surface.a()),
                    number("alpha", "", surface.alpha()),
                    number("B", "", surface.b()),
                    number("beta", "", surface.beta())));
        }
        return numbers;
    }

    /**
     * Returns the prediction for a budget. If there are runs of this budget, the result also contains their minimum
     * (line fits) or the number of runs that are tied with the lowest (surface).
     */
    private List<Measurement> optimumNumbers(FitMethod method, double compute) {
        ScalingFit fit = study.fit(method);
        Optimum optimum = fit.law().at(compute);
        Interval parameters = fit.parameters(compute);
        Interval tokens = fit.tokens(compute);
        List<Measurement> numbers = new ArrayList<>(List.of(
                number("parameters", "parameters", optimum.parameters()),
                number("parameters-low", "parameters", parameters.low()),
                number("parameters-high", "parameters", parameters.high()),
                number("tokens", "tokens", optimum.tokens()),
                number("tokens-low", "tokens", tokens.low()),
                number("tokens-high", "tokens", tokens.high())));
        if (method == FitMethod.LOSS_SURFACE) {
            double deviation = study.surface().residualStandardDeviation();
            study.runs().profiles().stream()
                    .filter(profile -> profile.compute() == compute)
                    .mapToInt(profile -> profile.contenders(deviation).size())
                    .forEach(tied -> numbers.add(number("as-low-as-the-lowest", "runs", tied)));
        }
        if (fit instanceof LineFit line) {
            line.minima().stream()
                    .filter(minimum -> minimum.compute() == compute)
                    .forEach(minimum -> numbers.add(number("minimum", "parameters", minimum.parameters())));
        }
        return numbers;
    }

    /** Returns the first twelve digits of the file's SHA-256, which identify the fitted runs. */
    private static String fingerprint(Path file) throws IOException {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file));
            return HexFormat.of().formatHex(hash).substring(0, 12);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java platform has SHA-256
        }
    }
}
