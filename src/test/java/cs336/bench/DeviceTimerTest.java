package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class DeviceTimerTest {
    @Test
    void onTheCpuTimesAreWallTimesBetweenAnyTwoMarks() throws InterruptedException {
        try (var timer = DeviceTimer.on(Device.cpu(), 3)) {
            timer.mark(0);
            timer.mark(1);
            Thread.sleep(20);
            timer.mark(2);
            assertTrue(timer.ms(1, 2) >= 20, timer.ms(1, 2) + " ms");
            assertEquals(timer.ms(0, 1) + timer.ms(1, 2), timer.ms(0, 2), 1e-9);
            timer.mark(1);
            assertTrue(timer.ms(0, 1) >= 20, "a mark can be set again");
        }
    }

    @Test
    void aTimerNeedsTwoMarks() {
        var error = assertThrows(IllegalArgumentException.class, () -> DeviceTimer.on(Device.cpu(), 1));
        assertEquals("marks must be at least 2, not 1", error.getMessage());
    }

    @Test
    void splitsAreTheTimesBetweenNeighbouringMarksOfOneStep() throws InterruptedException {
        try (var splits = new Splits(Device.cpu(), 3)) {
            for (int step = 0; step < 2; step++) {
                splits.start();
                Thread.sleep(5);
                splits.mark();
                Thread.sleep(20);
                splits.mark();
                double[] ms = splits.ms();
                assertEquals(2, ms.length);
                assertTrue(ms[0] >= 5 && ms[1] >= 20, ms[0] + " and " + ms[1] + " ms");
            }
            assertThrows(IllegalStateException.class, splits::mark);
        }
    }

    @Test
    @Tag("gpu")
    void onAGpuTheTimeIncludesWorkThatIsStillQueued() {
        Device device = Device.cuda(0);
        try (var scope = MemoryScope.open();
                var timer = DeviceTimer.on(device, 2)) {
            Tensor x = torch.randn(new long[] {4096, 4096}, device.options(DType.FLOAT32));
            x.matmul(x);
            device.synchronize();
            long started = System.nanoTime();
            timer.mark(0);
            for (int i = 0; i < 20; i++) {
                x.matmul(x);
            }
            timer.mark(1);
            double ms = timer.ms(0, 1);
            double wall = (System.nanoTime() - started) / 1e6;
            assertTrue(ms > 0.5 * wall && ms <= wall, ms + " of " + wall + " ms");
        }
    }
}
