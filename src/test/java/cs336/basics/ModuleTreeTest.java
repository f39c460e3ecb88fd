package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class ModuleTreeTest {
    private static final class Identity extends NnModule {
        @Override
        protected Tensor compute(Tensor x) {
            return x;
        }
    }

    private static final class Largest extends NnModule {
        @Override
        protected Tensor compute(Tensor x) {
            return torch.max(x, 1, false).get0();
        }
    }

    /** A model whose first layer returns its input. */
    private static final class Outer extends NnModule {
        private final Identity identity = child("identity", new Identity());
        private final Largest largest = child("largest", new Largest());

        @Override
        protected Tensor compute(Tensor x) {
            return largest.forward(identity.forward(x));
        }
    }

    @Test
    void layersMayReturnTheirInputOrAnElementOfATuple() {
        try (var scope = MemoryScope.open();
                var model = new Outer()) {
            Tensor x = torch.ones(2, 3);
            for (int i = 0; i < 300; i++) {
                assertEquals(2, model.forward(x).sum().item_float());
            }
            assertEquals(6, x.sum().item_float());
        }
    }

    private static final class SameNames extends NnModule {
        SameNames() {
            parameter("a.weight", torch.ones(3));
            child("a", new Linear(2, 2, Device.cpu(), DType.FLOAT32));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return x;
        }
    }

    @Test
    void parametersOfOneNameAreRefused() {
        try (var model = new SameNames()) {
            assertEquals(
                    "two parameters have the name a.weight",
                    assertThrows(IllegalStateException.class, model::namedParameters)
                            .getMessage());
        }
    }

    @Test
    void modelIsATreeWithEqualBlocksOnce() {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(50)
                .contextLength(8)
                .dModel(16)
                .numLayers(3)
                .numHeads(2)
                .dFf(32)
                .build();
        var model = new TransformerLM(config, Device.cpu());
        String tree = model.toString();
        String[] lines = tree.split("\n");
        assertTrue(lines[0].startsWith("TransformerLM"), tree);
        assertTrue(lines[0].endsWith(String.format(", %,d parameters", model.parameterCount())), tree);
        assertTrue(tree.contains("layers.0 … layers.2 (3 ×): TransformerBlock, "), tree);
        assertTrue(tree.contains("(weight [50, 16]), 800 parameters"), tree);
        assertTrue(lines[lines.length - 1].startsWith("└─ ") || lines[lines.length - 1].startsWith("   "), tree);
        model.children().get(0).close();
        assertTrue(model.toString().contains("closed"), model.toString());
        model.close();
        assertEquals("TransformerLM, closed", model.toString());
    }
}
