package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.Device;
import cs336.units.PretendedLoad;
import java.util.List;
import org.junit.jupiter.api.Test;

class TimesOfABusyHostTest {
    private static final String WARNING =
            "The host is busy (load average 9.5 on 4 cores): the following times include waiting for a core.";

    @Test
    void timesOfABusyHostCarryOneWarning() {
        try (var host = PretendedLoad.busy()) {
            stopwatch();
            assertEquals(List.of(WARNING), host.warnings());
            stopwatch();
            doBench();
            assertEquals(List.of(WARNING), host.warnings(), "the cell or command has its warning");
            host.expectWarning();
            doBench();
            assertEquals(List.of(WARNING, WARNING), host.warnings(), "the next one has its own");
        }
    }

    @Test
    void aHostIsBusyIfItsLoadExceedsItsCores() {
        try (var host = PretendedLoad.idle()) {
            stopwatch();
            host.set(4); // as many as cores
            stopwatch();
            host.set(-1); // unknown
            stopwatch();
            assertEquals(List.of(), host.warnings());
            host.set(4.01);
            stopwatch();
            assertEquals(1, host.warnings().size());
        }
    }

    private static void stopwatch() {
        Stopwatch.on(Device.cpu()).warmup(0).steps(1).time("nothing", () -> {});
    }

    private static void doBench() {
        DoBench.on(Device.cpu()).warmup(1).rep(1).time("nothing", () -> {});
    }
}
