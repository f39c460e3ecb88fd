package cs336.scaling.laws;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Random;
import org.junit.jupiter.api.Test;

class LossSurfaceTest {
    private static final double GOLDEN = (Math.sqrt(5) - 1) / 2;

    static LossSurface random(Random random) {
        return new LossSurface(
                1 + random.nextDouble(),
                200 + 800 * random.nextDouble(),
                0.25 + 0.2 * random.nextDouble(),
                500 + 2000 * random.nextDouble(),
                0.25 + 0.2 * random.nextDouble());
    }

    /** Returns the size of least loss at a budget by golden-section search over ln N, without derivatives. */
    private static double searched(LossSurface surface, double compute) {
        double low = Math.log(1e3), high = Math.log(compute / 6 / 1e3);
        while (high - low > 1e-9) {
            double left = high - GOLDEN * (high - low), right = low + GOLDEN * (high - low);
            boolean leftLower = surface.loss(Math.exp(left), compute / 6 / Math.exp(left))
                    < surface.loss(Math.exp(right), compute / 6 / Math.exp(right));
            if (leftLower) {
                high = right;
            } else {
                low = left;
            }
        }
        return Math.exp((low + high) / 2);
    }

    @Test
    void theLawAgreesWithASearchForTheLeastLossAndSpendsTheBudget() {
        long seed = new Random().nextLong();
        var random = new Random(seed);
        for (int i = 0; i < 20; i++) {
            LossSurface surface = random(random);
            double compute = Math.pow(10, 17 + 8 * random.nextDouble());
            Optimum optimum = surface.law().at(compute);
            // A minimum can be located to half of the digits of its value only.
            assertEquals(1, optimum.parameters() / searched(surface, compute), 1e-5, surface + ", seed " + seed);
            assertEquals(1, 6 * optimum.parameters() * optimum.tokens() / compute, 1e-14);
        }
    }

    @Test
    void nonPositiveNumbersAreRejected() {
        assertThrows(IllegalArgumentException.class, () -> new LossSurface(1.7, 400, 0, 400, 0.3));
        assertThrows(IllegalArgumentException.class, () -> new LossSurface(1.7, 400, 0.3, Double.NaN, 0.3));
    }
}
