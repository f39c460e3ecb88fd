package cs336.compile.program;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.MemoryScope;
import cs336.torch.NoGradTest;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/** Tensors that begin elsewhere in their storage, share one, or are read as numbers of another kind. */
class InterpreterTest extends NoGradTest {
    private static void assertRuns(Program program, TensorFunction function, Tensor... inputs) {
        Tensor expected = function.apply(inputs)[0];
        Tensor got = new Interpreter(program).run(inputs)[0];
        assertTrue(torch.equal(expected, got), program::toString);
    }

    @Test
    void anInputMayBeginElsewhereInItsStorageThanTheRecordedOne() {
        TensorFunction function = in -> new Tensor[] {in[0].transpose(0, 1).matmul(in[0])};
        Program program = Recorder.record(function, torch.randn(3, 4));
        assertRuns(program, function, torch.randn(5, 4).narrow(0, 2, 3));
    }

    @Test
    void inputsMayBePartsOfOneTensor() {
        TensorFunction function = in -> new Tensor[] {in[0].sub(in[1]).mul(in[2])};
        Tensor x = torch.randn(12);
        Tensor[] parts = {x.narrow(0, 4, 4), x.narrow(0, 0, 4), x.narrow(0, 7, 4)};
        assertRuns(Recorder.record(function, parts), function, parts);
    }

    @Test
    void partsOfConjugatedNumbersAreReadAsReals() {
        TensorFunction function =
                in -> new Tensor[] {torch.view_as_real(in[0].conj()).neg()};
        Tensor conjugated =
                torch.view_as_complex(torch.randn(5, 2)).narrow(0, 1, 3).conj();
        assertRuns(Recorder.record(function, conjugated), function, conjugated);
    }

    @Test
    void runsReuseTheirNativeObjects() {
        Tensor x = torch.randn(4);
        var interpreter = new Interpreter(Recorder.record(in -> new Tensor[] {in[0].exp()}, x));
        long before = 0;
        int runs = 50;
        for (int i = 0; i <= runs; i++) {
            try (var scope = MemoryScope.open()) {
                interpreter.run(x);
            }
            before = i == 0 ? Pointer.totalCount() : before;
        }
        assertEquals(before, Pointer.totalCount(), runs - 1, "native objects before and after " + runs + " runs");
    }
}
