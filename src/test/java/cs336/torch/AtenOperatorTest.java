package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.torch.AtenOperator.TensorList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class AtenOperatorTest {
    @Test
    void multiTensorOperatorChangesEveryTensorOfTheList() {
        try (var scope = MemoryScope.open()) {
            Tensor a = torch.ones(2);
            Tensor b = torch.ones(3, 3);
            try (var list = TensorList.of(List.of(a, b))) {
                AtenOperator.of("aten::_foreach_mul_", "Scalar").call(list, 3.0);
            }
            assertEquals(6.0f, a.sum().item_float());
            assertEquals(27.0f, b.sum().item_float());
        }
    }

    @Test
    void resultsAreInTheCallersScope() {
        try (var scope = MemoryScope.open()) {
            List<Tensor> result = AtenOperator.of("aten::sort", "").call(torch.rand(5), -1L, false);
            assertEquals(2, result.size());
            assertEquals(5, result.get(1).size(0));
        }
    }

    @Test
    void listOfTensorsIsReturnedInOrder() {
        try (var scope = MemoryScope.open()) {
            try (var list = TensorList.of(List.of(torch.ones(4), torch.ones(9), torch.ones(16)))) {
                List<Tensor> norms =
                        AtenOperator.of("aten::_foreach_norm", "Scalar").call(list, 2.0, null);
                assertEquals(
                        List.of(2.0f, 3.0f, 4.0f),
                        norms.stream().map(Tensor::item_float).toList());
            }
        }
    }

    @Test
    void unknownOperatorIsRefused() {
        var unknown =
                assertThrows(IllegalArgumentException.class, () -> AtenOperator.of("aten::no_such_operator", "x"));
        assertEquals("libtorch has no operator aten::no_such_operator.x", unknown.getMessage());
    }

    @Test
    void argumentOfAnotherClassIsRefused() {
        AtenOperator sqrt = AtenOperator.of("aten::sqrt", "");
        var error = assertThrows(IllegalArgumentException.class, () -> sqrt.call("four"));
        assertEquals(
                "argument of aten::sqrt must be a Tensor, TensorList, Double, Long, Boolean or null, not a"
                        + " java.lang.String",
                error.getMessage());
    }
}
