package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class NnModuleTest {
    /** A layer that a test builds step by step. */
    private static final class Assembled extends NnModule {
        private Tensor result;

        Tensor add(String name, Tensor value) {
            return parameter(name, value);
        }

        NnModule addLinear(String name, int in) {
            return addChild(name, new Linear(in, 2, Device.cpu(), DType.FLOAT32));
        }

        NnModule addChild(String name, NnModule module) {
            return child(name, module);
        }

        Tensor addBuffer(String name, Tensor value, boolean persistent) {
            return buffer(name, value, persistent);
        }

        void remove(String name) {
            removeChild(name);
        }

        NnModule replace(String name, NnModule module) {
            return replaceChild(name, module);
        }

        @Override
        protected Tensor compute(Tensor x) {
            return result;
        }
    }

    private static String refused(Executable use) {
        return assertThrows(IllegalArgumentException.class, use).getMessage();
    }

    @Test
    void mistakesOfALayerAreNamed() {
        try (var scope = MemoryScope.open();
                var layer = new Assembled()) {
            Tensor x = torch.randn(2, 3);
            var ofOutput = assertThrows(IllegalStateException.class, () -> layer.forward(x));
            assertEquals("Assembled must compute a tensor, not null", ofOutput.getMessage());
            layer.result = torch.ones(1);
            layer.result.close();
            var ofClosed = assertThrows(IllegalStateException.class, () -> layer.forward(x));
            assertEquals("Assembled must compute a tensor, not a closed one", ofClosed.getMessage());
            var ofChild = assertThrows(NullPointerException.class, () -> layer.addChild("fc", null));
            assertEquals("child fc must not be null", ofChild.getMessage());
            var parent = new Assembled();
            parent.addChild("inner", layer);
            assertThrows(IllegalArgumentException.class, () -> layer.addChild("outer", parent));
            assertThrows(IllegalArgumentException.class, () -> layer.addChild("self", layer));
        }
    }

    @Test
    void aLayerOfAnAnonymousClassHasTheNameOfItsSuperclass() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(2, 3);
            var layer = new NnModule() {
                @Override
                protected Tensor compute(Tensor input) {
                    return null;
                }
            };
            var ofOutput = assertThrows(IllegalStateException.class, () -> layer.forward(x));
            assertEquals("NnModule must compute a tensor, not null", ofOutput.getMessage());
            assertEquals("NnModule", layer.toString());
            layer.close();
            assertEquals("NnModule, closed", layer.toString());
        }
    }

    @Test
    void aParameterWithAGraphIsRejectedBecauseItWouldNotBeTrained() {
        try (var scope = MemoryScope.open();
                var layer = new Assembled()) {
            Tensor first = layer.add("first", torch.randn(2, 3));
            var e = assertThrows(IllegalArgumentException.class, () -> layer.add("second", first.clone()));
            assertTrue(e.getMessage().contains("parameter second must not be computed from tensors"), e.getMessage());
            layer.add("second", first.clone().detach());
            try (var noGrad = NoGrad.open()) {
                layer.add("third", first.clone());
            }
            layer.parameters().stream()
                    .map(Tensor::sum)
                    .reduce(Tensor::add)
                    .orElseThrow()
                    .backward();
            assertEquals(3, layer.parameters().size());
            assertTrue(layer.parameters().stream()
                    .allMatch(parameter -> parameter.grad().defined()));
        }
    }

    @Test
    void persistentBuffersAreSavedAndLoadedInTheOrderOfPyTorch(@TempDir Path folder) throws IOException {
        try (var scope = MemoryScope.open();
                var layer = new Assembled();
                var inner = new Assembled();
                var other = new Assembled()) {
            for (Assembled each : List.of(inner, other)) {
                each.addBuffer("running_mean", torch.randn(3), true);
                each.addBuffer("table", torch.randn(2), false);
                each.addBuffer("num_batches_tracked", Tensors.of(new long[] {7}), true);
                each.add("weight", torch.randn(3));
            }
            layer.addChild("norm", inner);
            layer.add("scale", torch.randn(1));
            assertEquals(
                    List.of("scale", "norm.weight", "norm.running_mean", "norm.num_batches_tracked"),
                    List.copyOf(layer.stateDict().keySet()));
            assertEquals(
                    List.of("norm.running_mean", "norm.table", "norm.num_batches_tracked"),
                    List.copyOf(layer.namedBuffers().keySet()));
            assertEquals(
                    List.of("scale", "norm.weight"),
                    List.copyOf(layer.namedParameters().keySet()));

            Path file = folder.resolve("state.safetensors");
            inner.namedBuffers().get("num_batches_tracked").fill_(new Scalar(9));
            Checkpoint.save(file, inner.stateDict(), Map.of());
            double[] ownTable = Tensors.toDoubles(other.namedBuffers().get("table"));
            Checkpoint.load(file, other.stateDict());
            inner.stateDict()
                    .forEach((name, tensor) ->
                            assertTrue(torch.equal(tensor, other.stateDict().get(name)), name));
            assertArrayEquals(ownTable, Tensors.toDoubles(other.namedBuffers().get("table")));

            Map<String, Tensor> state = new LinkedHashMap<>(inner.stateDict());
            state.put("running_mean", torch.ones(3));
            other.load(state);
            assertEquals(3, other.namedBuffers().get("running_mean").sum().item_float());
            assertEquals(1, state.get("running_mean").sum().item_float() / 3);
            state.put("table", torch.ones(2));
            assertEquals("there is no parameter or persistent buffer table", refused(() -> other.load(state)));
            state.remove("table");
            state.put("running_mean", torch.ones(4));
            assertEquals("buffer running_mean has the shape [3], not [4]", refused(() -> other.load(state)));
            state.put("running_mean", null);
            assertEquals("buffer running_mean must not be null", refused(() -> other.load(state)));
            state.remove("running_mean");
            assertEquals("values must contain buffer running_mean", refused(() -> other.load(state)));
            var e = assertThrows(NullPointerException.class, () -> other.load(null));
            assertEquals("values must not be null", e.getMessage());
            other.close();
            for (Executable use : List.<Executable>of(
                    () -> Checkpoint.save(file, other.stateDict(), Map.of()),
                    () -> Checkpoint.load(file, other.stateDict()))) {
                assertEquals("parameter weight is closed; its memory scope has ended", refused(use));
            }
        }
    }

    @Test
    void aBufferHasItsOwnNameAndNoGradientAndIsFreedWithItsLayer() {
        try (var scope = MemoryScope.open();
                var layer = new Assembled()) {
            Tensor mean;
            try (var inner = MemoryScope.open()) {
                mean = layer.addBuffer("mean", torch.ones(2), true);
            }
            layer.add("weight", torch.ones(2));
            assertEquals(
                    "Assembled already has a buffer mean",
                    refused(() -> layer.addBuffer("mean", torch.ones(2), false)));
            assertEquals("Assembled already has a buffer mean", refused(() -> layer.add("mean", torch.ones(2))));
            assertEquals(
                    "Assembled already has a parameter weight",
                    refused(() -> layer.addBuffer("weight", torch.ones(2), true)));
            Tensor leaf = torch.ones(2).set_requires_grad(true);
            assertEquals(
                    "buffer b must not require a gradient; detach it", refused(() -> layer.addBuffer("b", leaf, true)));
            assertEquals("buffer b must not be null", refused(() -> layer.addBuffer("b", null, true)));
            layer.close();
            assertTrue(mean.isNull());
        }
    }

    @Test
    void allActionsOfALayerRunUntilTheyAreRemoved() {
        try (var scope = MemoryScope.open();
                var layer = new Linear(2, 2, Device.cpu(), DType.FLOAT32)) {
            List<String> calls = new ArrayList<>();
            Runnable first = () -> calls.add("first");
            layer.beforeForward(first);
            layer.beforeForward(() -> calls.add("second"));
            layer.afterForward(output -> calls.add("third"));
            layer.afterForward(output -> calls.add("fourth"));
            layer.forward(torch.ones(1, 2));
            assertEquals(List.of("first", "second", "third", "fourth"), calls);
            layer.removeBeforeForward(first);
            layer.forward(torch.ones(1, 2));
            assertEquals(List.of("second", "third", "fourth"), calls.subList(4, calls.size()));
            layer.removeActions();
            layer.forward(torch.ones(1, 2));
            assertEquals(7, calls.size());
        }
    }

    @Test
    void theTrainingModeIsThatOfAllDescendants() {
        try (var layer = new Assembled()) {
            var inner = new Assembled();
            NnModule innermost = inner.addLinear("fc", 3);
            layer.addChild("inner", inner);
            assertTrue(layer.isTraining() && innermost.isTraining());
            layer.eval();
            assertTrue(!layer.isTraining() && !inner.isTraining() && !innermost.isTraining());
            inner.train();
            assertTrue(!layer.isTraining() && inner.isTraining() && innermost.isTraining());
        }
    }

    @Test
    void aReplacedChildKeepsItsPlaceInTheOrder() {
        try (var layer = new Assembled()) {
            NnModule first = layer.addLinear("first", 3);
            layer.addLinear("second", 4);
            var adapted = new Assembled();
            adapted.addChild("base", first);
            assertSame(adapted, layer.replace("first", adapted));
            assertEquals(
                    List.of("first.base.weight", "second.weight"),
                    List.copyOf(layer.namedParameters().keySet()));
            assertEquals("Assembled has no child third", refused(() -> layer.replace("third", new Assembled())));
            assertEquals("Assembled has no child third", refused(() -> layer.remove("third")));
            assertEquals("child first must not contain its parent", refused(() -> layer.replace("first", layer)));
            assertSame(adapted, layer.children().get(0));
            layer.remove("first");
            assertEquals(
                    List.of("second.weight"),
                    List.copyOf(layer.namedParameters().keySet()));
        }
    }

    @Test
    void aSecondParameterOrChildOfANameIsRejectedBecauseTheFirstWouldNotBeTrained() {
        try (var scope = MemoryScope.open();
                var layer = new Assembled()) {
            Tensor weight = layer.add("weight", torch.randn(2, 3));
            NnModule child = layer.addLinear("fc", 3);
            var ofParameter =
                    assertThrows(IllegalArgumentException.class, () -> layer.add("weight", torch.randn(2, 3)));
            assertEquals("Assembled already has a parameter weight", ofParameter.getMessage());
            var ofChild = assertThrows(IllegalArgumentException.class, () -> layer.addLinear("fc", 4));
            assertEquals("Assembled already has a child fc", ofChild.getMessage());
            assertEquals(weight, layer.ownParameters().get(0));
            assertEquals(child, layer.children().get(0));
        }
    }

    @Test
    void aLayerWithTwoNamesIsListedOnce() {
        try (var module = new Assembled()) {
            NnModule shared = module.addLinear("first", 3);
            NnModule other = module.addLinear("other", 3);
            module.addChild("second", shared);
            assertEquals(List.of(module, shared, other), module.layers());
        }
    }
}
