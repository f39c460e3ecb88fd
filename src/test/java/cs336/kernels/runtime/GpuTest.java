package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.Device;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GpuTest {
    @ParameterizedTest
    @CsvSource({"sm_90a, 227, true", "sm_90a, 99, false", "sm_80, 163, false", "sm_100a, 227, false"})
    void onlyHopperGpusRunKernelsForHopper(String architecture, int sharedKib, boolean runs) {
        var gpu = new Gpu(Device.cpu(), GpuArchitecture.parse(architecture), 132, 0, sharedKib * 1024, null);
        assertEquals(runs, gpu.runsHopperKernels());
    }
}
