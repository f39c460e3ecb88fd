package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.ScopedTest;
import java.util.LinkedHashMap;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class SgdTest extends ScopedTest {
    private static Tensor leaf(double value) {
        return Tensor.create(value).set_requires_grad(true);
    }

    private static void step(Optimizer optimizer, Tensor parameter, double gradient) {
        parameter.mutable_grad().put(Tensor.create(gradient));
        optimizer.step();
    }

    @Test
    void momentumAccumulatesGradients() {
        Tensor theta = leaf(1);
        var sgd = new Sgd(Map.of("theta", theta), 0.5, 0.75);
        step(sgd, theta, 2); // u = 2
        assertEquals(0, theta.item_double());
        step(sgd, theta, 1); // u = 1.5 + 1
        assertEquals(-1.25, theta.item_double());
        sgd.setLearningRate(1);
        step(sgd, theta, 0); // u = 1.875
        assertEquals(-3.125, theta.item_double());
    }

    @Test
    void withoutMomentumThereIsNoState() {
        Tensor theta = leaf(1);
        var sgd = new Sgd(Map.of("theta", theta), 0.5, 0);
        step(sgd, theta, 2);
        step(sgd, theta, 1);
        assertEquals(-0.5, theta.item_double());
        assertTrue(sgd.state().isEmpty());
    }

    @Test
    void parametersWithoutGradientAndFrozenOnesDoNotChange() {
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        parameters.put("a", leaf(1));
        parameters.put("b", leaf(1));
        var sgd = new Sgd(parameters, 1, 0.5);
        sgd.step();
        parameters.get("b").mutable_grad().put(Tensor.create(1.0));
        parameters.get("b").set_requires_grad(false);
        sgd.step();
        assertEquals(1, parameters.get("a").item_double());
        assertEquals(1, parameters.get("b").item_double());
        assertTrue(sgd.state().isEmpty());
        sgd.zeroGrad();
        assertFalse(parameters.get("b").grad().defined());
    }

    @Test
    void trainingFromALoadedStateEqualsUninterruptedTraining() {
        Tensor theta = leaf(1);
        var sgd = new Sgd(Map.of("theta", theta), 0.5, 0.5);
        step(sgd, theta, 2);
        Tensor resumed = leaf(theta.item_double());
        var resumedSgd = new Sgd(Map.of("theta", resumed), 0.5, 0.5);
        resumedSgd.loadState(sgd.state());
        step(sgd, theta, 1);
        step(resumedSgd, resumed, 1);
        assertEquals(theta.item_double(), resumed.item_double());
        Tensor velocity = resumedSgd.state().get("theta.velocity");
        resumedSgd.loadState(resumedSgd.state());
        assertTrue(velocity.isNull(), "the replaced velocity is freed");
        step(sgd, theta, 1);
        step(resumedSgd, resumed, 1);
        assertEquals(theta.item_double(), resumed.item_double());
        assertThrows(IllegalArgumentException.class, () -> sgd.loadState(Map.of("theta", torch.ones(1))));
        assertThrows(IllegalArgumentException.class, () -> sgd.loadState(Map.of("theta.velocity", torch.ones(1))));
    }

    @Test
    void settingsOutOfRangeAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new Sgd(Map.of(), -0.1, 0));
        assertThrows(IllegalArgumentException.class, () -> new Sgd(Map.of(), 0.1, 1));
        assertThrows(IllegalArgumentException.class, () -> new Sgd(Map.of("x", torch.tensor(1L)), 0.1, 0));
    }
}
