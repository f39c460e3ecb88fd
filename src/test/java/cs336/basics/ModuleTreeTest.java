package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Device;
import org.junit.jupiter.api.Test;

class ModuleTreeTest {
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
