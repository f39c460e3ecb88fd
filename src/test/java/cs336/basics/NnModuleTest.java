package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class NnModuleTest {
    /** A layer that a test builds step by step. */
    private static final class Assembled extends NnModule {
        Tensor add(String name, Tensor value) {
            return parameter(name, value);
        }

        NnModule addLinear(String name, int in) {
            return addChild(name, new Linear(in, 2, Device.cpu(), DType.FLOAT32));
        }

        NnModule addChild(String name, NnModule module) {
            return child(name, module);
        }

        @Override
        protected Tensor compute(Tensor x) {
            return null;
        }
    }

    @Test
    void mistakesOfALayerAreNamed() {
        try (var scope = MemoryScope.open();
                var layer = new Assembled()) {
            Tensor x = torch.randn(2, 3);
            var ofOutput = assertThrows(IllegalStateException.class, () -> layer.forward(x));
            assertEquals("Assembled must compute a tensor, not null", ofOutput.getMessage());
            var ofChild = assertThrows(NullPointerException.class, () -> layer.addChild("fc", null));
            assertEquals("child fc must not be null", ofChild.getMessage());
            var parent = new Assembled();
            parent.addChild("inner", layer);
            assertThrows(IllegalArgumentException.class, () -> layer.addChild("outer", parent));
            assertThrows(IllegalArgumentException.class, () -> layer.addChild("self", layer));
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
}
