package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DeviceTest {
    @Test
    void cpuIsParsedAndPrinted() {
        assertEquals(Device.cpu(), Device.parse("cpu"));
        assertEquals("cpu", Device.cpu().toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:99999999999"})
    void unknownDeviceIsRefusedWithItsName(String text) {
        var error = assertThrows(IllegalArgumentException.class, () -> Device.parse(text));
        assertTrue(error.getMessage().contains("'" + text + "'"), error.getMessage());
        assertTrue(error.getMessage().contains("cuda:N"), error.getMessage());
    }

    @Test
    void unavailableCudaSaysWhatIsMissing() {
        assumeTrue(Device.cudaCount() == 0);
        var error = assertThrows(IllegalArgumentException.class, () -> Device.cuda(0));
        assertTrue(error.getMessage().contains("driver"), error.getMessage());
        assertEquals(Device.cpu(), Device.best());
    }

    @Test
    void aTensorHasADevice() {
        try (var scope = MemoryScope.open()) {
            assertEquals(Device.cpu(), Device.of(Tensors.of(new double[] {1}, 1)));
        }
    }

    @Test
    void cpuMustHaveIndexZero() {
        assertThrows(IllegalArgumentException.class, () -> new Device(DeviceKind.CPU, 1));
    }

    @Test
    @Tag("gpu")
    void indexBeyondTheLastGpuIsRefused() {
        int count = Device.cudaCount();
        assertTrue(count > 0);
        var error = assertThrows(IllegalArgumentException.class, () -> Device.cuda(count));
        assertTrue(error.getMessage().contains("cuda:" + (count - 1)), error.getMessage());
    }

    @Test
    @Tag("gpu")
    void memoryStatsCountTheBytesOnTheGpu() {
        Device gpu = Device.cuda(0);
        try (var scope = MemoryScope.open()) {
            MemoryStats.resetPeak(gpu);
            long before = MemoryStats.current(gpu);
            long bytes = 1026L
                    << 20; // no cached block of another test is just above this size, so the allocator does not round
            // up to it
            org.bytedeco.pytorch.global.torch.empty(new long[] {bytes / 4}, gpu.options(DType.FLOAT32), null);
            assertEquals(bytes, MemoryStats.current(gpu) - before);
            assertEquals(bytes, MemoryStats.peak(gpu) - before);
            assertTrue(MemoryStats.available(gpu) > 1L << 30);
        }
        assertTrue(gpu.productName().contains("NVIDIA"), gpu.productName());
    }

    @Test
    void aRandomStateOfAnotherLengthIsRefused() {
        byte[] state = Torch.randomState(Device.cpu());
        var error = assertThrows(IllegalArgumentException.class, () -> Torch.setRandomState(Device.cpu(), new byte[3]));
        assertEquals("state must have " + state.length + " bytes, not 3", error.getMessage());
        Torch.setRandomState(Device.cpu(), state);
    }
}
