package cs336.compile.program;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import cs336.compile.trace.Recorder;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class ProgramTest extends ScopedTest {
    /** The outputs are the input, two halves of an intermediate tensor, its middle, the last result, and none. */
    @Test
    void outputsThatShareMemoryAndTheirCompletionsAreFound() {
        try (var noGrad = NoGrad.open()) {
            Program program = Recorder.record(
                    in -> {
                        Tensor y = in[0].exp();
                        Tensor z = y.add(in[0]);
                        return new Tensor[] {in[0], y.narrow(0, 0, 2), y.narrow(0, 2, 2), y.narrow(0, 1, 2), z, null};
                    },
                    torch.randn(4));
            assertArrayEquals(new boolean[] {true, false, false, true, false, false}, program.sharedOutputs(false));
            assertArrayEquals(new boolean[] {true, false, true, true, false, false}, program.sharedOutputs(true));
            assertArrayEquals(new int[] {0, 1, 1, 1, 2, -1}, program.completions());
        }
    }
}
