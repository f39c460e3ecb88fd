package cs336.units;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;

/** A load of the host that tests pretend until they close it, on 4 cores, and the warnings about it. */
public final class PretendedLoad implements AutoCloseable {
    private final Supplier<HostLoad> real = HostLoad.source;
    private final List<String> warnings = Collections.synchronizedList(new ArrayList<>());

    private PretendedLoad(double average) {
        set(average);
        expectWarning();
    }

    /** Pretends a load average of 9.5, and receives the next warning. */
    public static PretendedLoad busy() {
        return new PretendedLoad(9.5);
    }

    /** Pretends that nothing runs. */
    public static PretendedLoad idle() {
        return new PretendedLoad(0);
    }

    /** Pretends another load average. */
    public void set(double average) {
        HostLoad.source = () -> new HostLoad(average, 4);
    }

    /** Receives one more warning, as at the start of a command. */
    public void expectWarning() {
        HostLoad.warnOnce(warnings::add);
    }

    /** Returns the warnings so far. */
    public List<String> warnings() {
        return List.copyOf(warnings);
    }

    @Override
    public void close() {
        HostLoad.source = real;
        HostLoad.warnOnce(null);
    }
}
