package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.global.torch_cuda;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class SideStreamTest {
    @Test
    void onlyGpusHaveOne() {
        var error = assertThrows(IllegalArgumentException.class, () -> new SideStream().of(Device.cpu()));
        assertEquals("gpu must be a CUDA GPU, not cpu", error.getMessage());
    }

    @Test
    @Tag("gpu")
    void workRunsOnItAndTheStreamBeforeIsCurrentAfterwards() {
        Device gpu = Device.cuda(0);
        var side = new SideStream();
        long before = current();
        assertThrows(
                IllegalStateException.class,
                () -> side.run(gpu, () -> {
                    assertEquals(side.of(gpu).id(), current());
                    assertNotEquals(before, current());
                    throw new IllegalStateException("ended early");
                }));
        assertEquals(before, current());
    }

    private static long current() {
        try (CUDAStream stream = torch_cuda.getCurrentCUDAStream((byte) 0)) {
            return stream.id();
        }
    }
}
