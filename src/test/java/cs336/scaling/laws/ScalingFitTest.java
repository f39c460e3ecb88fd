package cs336.scaling.laws;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.DoubleBinaryOperator;
import java.util.stream.IntStream;
import org.hipparchus.optim.InitialGuess;
import org.hipparchus.optim.MaxEval;
import org.hipparchus.optim.nonlinear.scalar.GoalType;
import org.hipparchus.optim.nonlinear.scalar.ObjectiveFunction;
import org.hipparchus.optim.nonlinear.scalar.noderiv.NelderMeadSimplex;
import org.hipparchus.optim.nonlinear.scalar.noderiv.SimplexOptimizer;
import org.junit.jupiter.api.Test;

class ScalingFitTest {
    private static final double[] BUDGETS = {6e17, 2e18, 1e19, 5e19, 3e20, 2e21};
    private static final Bootstrap QUICK = new Bootstrap(0.95, 100, 1);

    private final long seed = new Random().nextLong();
    private final Random random = new Random(seed);

    /** Returns runs with seven sizes per budget in steps of a factor; the middle size is the optimum of the law. */
    private static IsoFlops around(PowerLaw law, double step, DoubleBinaryOperator lossOfComputeAndSize) {
        List<TrainingRun> runs = new ArrayList<>();
        for (double compute : BUDGETS) {
            for (int i = -3; i <= 3; i++) {
                long parameters = Math.round(law.at(compute).parameters() * Math.pow(step, i));
                runs.add(new TrainingRun(parameters, compute, lossOfComputeAndSize.applyAsDouble(compute, parameters)));
            }
        }
        return new IsoFlops(runs);
    }

    private static DoubleBinaryOperator losses(LossSurface surface) {
        return (compute, parameters) -> surface.loss(parameters, compute / 6 / parameters);
    }

    private void assertRecovers(PowerLaw law, ScalingFit fit) {
        assertEquals(law.exponent(), fit.law().exponent(), 1e-6, "seed " + seed);
        for (double compute : new double[] {1e18, 1e23, 1e24}) {
            Optimum optimum = fit.law().at(compute);
            assertEquals(1, optimum.parameters() / law.at(compute).parameters(), 1e-5, "seed " + seed);
            assertEquals(1, 6 * optimum.parameters() * optimum.tokens() / compute, 1e-14);
        }
    }

    @Test
    void lowestRunsRecoverTheLawIfTheyAreTheOptima() {
        LossSurface surface = LossSurfaceTest.random(random);
        assertRecovers(surface.law(), FitMethod.LOWEST_RUN.fit(around(surface.law(), 1.3, losses(surface)), QUICK));
    }

    @Test
    void aLawWithoutIntervalsNeedsNoBootstrap() {
        LossSurface surface = LossSurfaceTest.random(random);
        var endless = new Bootstrap(0.95, 1_000_000, 1);
        IsoFlops runs = around(surface.law(), 1.3, losses(surface));
        assertRecovers(surface.law(), FitMethod.LOSS_SURFACE.fit(runs, endless));
    }

    @Test
    void parabolasRecoverTheLawFromRunsAsideOfTheMinima() {
        var law = new PowerLaw(0.1 + random.nextDouble(), 0.45 + 0.1 * random.nextDouble());
        double aside = 0.6 + 0.8 * random.nextDouble(); // no run is at the minimum
        IsoFlops runs = around(new PowerLaw(law.coefficient() * aside, law.exponent()), 1.6, (compute, parameters) -> {
            double x = Math.log(parameters / law.at(compute).parameters());
            return 3 - Math.log(compute / 1e18) / 10 + 0.07 * x * x;
        });
        assertRecovers(law, FitMethod.QUADRATIC_MINIMA.fit(runs, QUICK));
        Parabola parabola = runs.profiles().get(0).parabola();
        assertEquals(0.14, parabola.curvature(), 1e-9);
        TrainingRun run = runs.runs().get(5);
        assertEquals(run.loss(), parabola.at(Math.log(run.parameters())), 1e-9);
    }

    @Test
    void aSurfaceWithoutNoiseIsRecoveredFromRunsAsideOfTheMinima() {
        LossSurface surface = LossSurfaceTest.random(random);
        var aside =
                new PowerLaw(surface.law().coefficient() * 1.4, surface.law().exponent() + 0.01);
        SurfaceFit fit = (SurfaceFit) FitMethod.LOSS_SURFACE.fit(around(aside, 1.7, losses(surface)), QUICK);
        assertRecovers(surface.law(), fit);
        assertEquals(surface.irreducible(), fit.surface().irreducible(), 1e-6, "seed " + seed);
        assertEquals(1, fit.surface().a() / surface.a(), 1e-5, "seed " + seed);
        assertEquals(surface.alpha(), fit.surface().alpha(), 1e-6, "seed " + seed);
        assertEquals(1, fit.surface().b() / surface.b(), 1e-5, "seed " + seed);
        assertEquals(surface.beta(), fit.surface().beta(), 1e-6, "seed " + seed);
        assertTrue(fit.residualStandardDeviation() < 1e-9, fit.residualStandardDeviation() + ", seed " + seed);
    }

    @Test
    void onlyTheSurfaceFitsRunsOfUnequalBudgets() {
        LossSurface surface = LossSurfaceTest.random(random);
        List<TrainingRun> runs = new ArrayList<>();
        for (TrainingRun run : around(surface.law(), 1.7, losses(surface)).runs()) {
            double compute = run.compute() * (1 + random.nextDouble());
            double loss = losses(surface).applyAsDouble(compute, run.parameters());
            runs.add(new TrainingRun(run.parameters(), compute, loss));
        }
        var unequal = new IsoFlops(runs);
        assertRecovers(surface.law(), FitMethod.LOSS_SURFACE.fit(unequal, QUICK));
        for (FitMethod method : List.of(FitMethod.LOWEST_RUN, FitMethod.QUADRATIC_MINIMA)) {
            var refused = assertThrows(IllegalArgumentException.class, () -> method.fit(unequal, QUICK));
            assertTrue(refused.getMessage().endsWith("must have runs of at least 3 sizes, not 1"), method.toString());
        }
    }

    @Test
    void noSurfaceNearbyHasALowerHuberLoss() {
        IsoFlops runs = SyntheticRuns.SHIPPED.seeded(seed).draw();
        LossSurface fitted = ((SurfaceFit) FitMethod.LOSS_SURFACE.fit(runs, QUICK)).surface();
        double[] found = {
            fitted.irreducible(), Math.log(fitted.a()), fitted.alpha(), Math.log(fitted.b()), fitted.beta()
        };
        // Another optimizer, without derivatives and with other parameters, finds nothing better from there.
        double better = new SimplexOptimizer(1e-14, 1e-16)
                .optimize(
                        new MaxEval(20_000),
                        new ObjectiveFunction(p -> huber(runs, p)),
                        GoalType.MINIMIZE,
                        new InitialGuess(found),
                        new NelderMeadSimplex(new double[] {1e-2, 1e-2, 1e-3, 1e-2, 1e-3}))
                .getValue();
        assertEquals(better, huber(runs, found), 1e-7 * better, "seed " + seed);
    }

    private static double huber(IsoFlops runs, double[] p) {
        double sum = 0;
        for (TrainingRun run : runs.runs()) {
            double loss = p[0]
                    + Math.exp(p[1]) * Math.pow(run.parameters(), -p[2])
                    + Math.exp(p[3]) * Math.pow(run.tokens(), -p[4]);
            double residual = Math.abs(Math.log(loss / run.loss()));
            sum += residual <= 1e-3 ? residual * residual / 2 : 1e-3 * (residual - 0.5e-3);
        }
        return sum;
    }

    @Test
    void oneDivergedRunHardlyMovesTheSurface() {
        LossSurface surface = SyntheticRuns.SHIPPED.surface();
        List<TrainingRun> runs =
                new ArrayList<>(around(surface.law(), 1.5, losses(surface)).runs());
        TrainingRun diverged = runs.remove(random.nextInt(runs.size()));
        runs.add(new TrainingRun(diverged.parameters(), diverged.compute(), 2 * diverged.loss()));
        double exponent =
                FitMethod.LOSS_SURFACE.fit(new IsoFlops(runs), QUICK).law().exponent();
        assertEquals(surface.law().exponent(), exponent, 1e-3, "seed " + seed);
    }

    @Test
    void aLineThroughTheDataSizesAgreesWithOneThroughTheModelSizes() {
        IsoFlops runs = SyntheticRuns.SHIPPED.seeded(seed).draw();
        LineFit fit = (LineFit) FitMethod.LOWEST_RUN.fit(runs, QUICK);
        double[] x = new double[fit.minima().size()], y = x.clone();
        for (int i = 0; i < x.length; i++) {
            x[i] = Math.log10(fit.minima().get(i).compute());
            y[i] = Math.log10(fit.minima().get(i).tokens());
        }
        // Textbook formula of the slope.
        double sx = Arrays.stream(x).sum(), sy = Arrays.stream(y).sum();
        double sxx = Arrays.stream(x).map(a -> a * a).sum();
        double sxy = IntStream.range(0, x.length).mapToDouble(i -> x[i] * y[i]).sum();
        double slope = (x.length * sxy - sx * sy) / (x.length * sxx - sx * sx);
        double tokens = Math.pow(10, sy / x.length + slope * (24 - sx / x.length));
        assertEquals(1 - fit.law().exponent(), slope, 1e-9, "seed " + seed);
        assertEquals(1, fit.law().at(1e24).tokens() / tokens, 1e-8, "seed " + seed);
    }

    @Test
    void lossesWithoutAMinimumAreRejected() {
        IsoFlops hills = around(new PowerLaw(0.1, 0.5), 1.5, (compute, parameters) -> {
            double x = Math.log(parameters / (0.1 * Math.sqrt(compute)));
            return 3 - 0.05 * x * x;
        });
        var refused = assertThrows(IllegalArgumentException.class, () -> FitMethod.QUADRATIC_MINIMA.fit(hills, QUICK));
        assertEquals(
                "the losses of compute_budget 6e17 must have a minimum: their parabola opens downwards",
                refused.getMessage());
    }

    /** The vertex of a parabola through points on a line is a rounding error. */
    @Test
    void lossesOnALineAreRejected() {
        double slope = (random.nextBoolean() ? 1 : -1) * (0.1 + random.nextDouble());
        for (double curvature : new double[] {0, 1e-15, 1e-5}) {
            IsoFlops line = around(new PowerLaw(0.1, 0.5), 1.5, (compute, parameters) -> {
                double x = Math.log(parameters / (0.1 * Math.sqrt(compute)));
                return 10 + slope * x + curvature * x * x;
            });
            var refused =
                    assertThrows(IllegalArgumentException.class, () -> FitMethod.QUADRATIC_MINIMA.fit(line, QUICK));
            assertTrue(
                    refused.getMessage().contains(" must have a minimum: their parabola "),
                    refused.getMessage() + ", seed " + seed);
        }
    }

    @Test
    void aSurfaceNeedsThreeSizesAndThreeNumbersOfTokens() {
        LossSurface surface = LossSurfaceTest.random(random);
        for (boolean areSizes : new boolean[] {true, false}) {
            List<TrainingRun> runs = new ArrayList<>();
            for (double few : new double[] {1e8, 4e8}) {
                for (double many : new double[] {1e9, 3e9, 1e10, 3e10, 1e11}) {
                    double parameters = areSizes ? few : many;
                    double tokens = areSizes ? many : few;
                    double loss = surface.loss(parameters, tokens) * (1 + 1e-3 * random.nextGaussian());
                    runs.add(new TrainingRun((long) parameters, 6 * parameters * tokens, loss));
                }
            }
            var refused = assertThrows(
                    IllegalArgumentException.class, () -> FitMethod.LOSS_SURFACE.fit(new IsoFlops(runs), QUICK));
            assertEquals(
                    (areSizes ? "parameters" : "tokens, compute_budget / (6 · parameters),")
                            + " must take at least 3 values for a loss surface, not 2",
                    refused.getMessage());
        }
    }

    @Test
    void equalLossesHaveNoLaw() {
        IsoFlops flat = around(new PowerLaw(0.1, 0.5), 1.5, (compute, parameters) -> 3);
        assertThrows(IllegalStateException.class, () -> FitMethod.LOSS_SURFACE.fit(flat, QUICK));
    }

    /**
     * Two budgets that differ by rounding only count as two. A line through three such points always passes through the
     * third, so that there are no residuals to resample.
     */
    @Test
    void nearlyEqualBudgetsAreRejectedWithoutAnEndlessLoop() {
        for (double difference : new double[] {1e-15, 1e-12, 3e-8, Math.pow(10, -6 - 8 * random.nextDouble())}) {
            var minima = List.of(
                    new Optimum(1e18, 1e8), new Optimum(1e18 * (1 + difference), 1.1e8), new Optimum(1e21, 3e9));
            var refused = assertTimeoutPreemptively(
                    Duration.ofSeconds(60), // a fit that never ends would
                    () -> assertThrows(IllegalArgumentException.class, () -> new LineFit(minima, QUICK)),
                    difference + ", seed " + seed);
            assertTrue(
                    refused.getMessage()
                            .startsWith("compute_budget must take at least 3 clearly different values, not 1e18"),
                    refused.getMessage());
        }
    }

    @Test
    void moreParametersAreFewerTokensAtBothEndsOfTheInterval() {
        for (FitMethod method : FitMethod.values()) {
            ScalingFit fit = method.fit(SyntheticRuns.SHIPPED.draw(), QUICK);
            Interval parameters = fit.parameters(1e24), tokens = fit.tokens(1e24);
            assertEquals(1e24, 6 * parameters.low() * tokens.high(), 1e10);
            assertEquals(1e24, 6 * parameters.high() * tokens.low(), 1e10);
            assertTrue(parameters.contains(fit.law().at(1e24).parameters()), method.toString());
            assertTrue(fit.exponent().contains(fit.law().exponent()), method.toString());
        }
    }

    /** Of 500 seeded intervals of 95 %, 475 are expected to contain the true value, with a standard deviation of 5. */
    @Test
    void intervalsOfLinesHaveTheStatedCoverage() {
        var law = new PowerLaw(0.1, 0.5);
        var noise = new Random(1);
        var bootstrap = new Bootstrap(0.95, 400, 2);
        int exponents = 0, sizes = 0, sets = 500;
        for (int set = 0; set < sets; set++) {
            List<Optimum> minima = Arrays.stream(SyntheticRuns.BUDGETS)
                    .mapToObj(c -> new Optimum(c, law.at(c).parameters() * Math.exp(0.2 * noise.nextGaussian())))
                    .toList();
            var fit = new LineFit(minima, bootstrap);
            if (fit.exponent().contains(law.exponent())) {
                exponents++;
            }
            if (fit.parameters(1e24).contains(law.at(1e24).parameters())) {
                sizes++;
            }
        }
        assertEquals(0.95 * sets, exponents, 15);
        assertEquals(0.95 * sets, sizes, 15);
    }

    /** Of 60 seeded intervals of 90 %, 54 are expected to contain the true value, with a standard deviation of 2.3. */
    @Test
    void intervalsOfSurfacesHaveTheStatedCoverage() {
        PowerLaw law = SyntheticRuns.SHIPPED.surface().law();
        var bootstrap = new Bootstrap(0.9, 100, 3);
        int exponents = 0, sizes = 0, sets = 60;
        for (int set = 0; set < sets; set++) {
            ScalingFit fit =
                    FitMethod.LOSS_SURFACE.fit(SyntheticRuns.SHIPPED.seeded(set).draw(), bootstrap);
            if (fit.exponent().contains(law.exponent())) {
                exponents++;
            }
            if (fit.parameters(1e24).contains(law.at(1e24).parameters())) {
                sizes++;
            }
        }
        assertEquals(0.9 * sets, exponents, 6);
        assertEquals(0.9 * sets, sizes, 6);
    }

    @Test
    void theSameSeedGivesTheSameIntervals() {
        IsoFlops runs = SyntheticRuns.SHIPPED.draw();
        for (FitMethod method : FitMethod.values()) {
            assertEquals(
                    method.fit(runs, QUICK).parameters(1e23),
                    method.fit(runs, QUICK).parameters(1e23));
        }
    }
}
