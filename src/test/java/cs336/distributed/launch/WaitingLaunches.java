package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.OutputStream;
import java.io.PrintStream;
import java.io.Serializable;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** Launches that fail and mostly wait for a timeout. They start together, and each test awaits its own. */
public final class WaitingLaunches {
    /** The time within which a launch must have ended, far less than a disturbance lasts. */
    private static final double BOUND_S = 300;

    private final Map<String, CompletableFuture<RankFailure>> launches = new ConcurrentHashMap<>();

    /** Starts a launch with a timeout of ten seconds, without output. */
    public <A extends Serializable, R extends Serializable> void start(
            String name, int ranks, Class<? extends RankProgram<A, R>> program, A input) {
        launches.put(
                name, inBackground(() -> failure(Launcher.of(ranks).timeout(Duration.ofSeconds(10)), program, input)));
    }

    /** Returns the failure of a launch, or of a new one with a long timeout if none of this name has started. */
    public <A extends Serializable, R extends Serializable> RankFailure failure(
            String name, int ranks, Class<? extends RankProgram<A, R>> program, A input) {
        CompletableFuture<RankFailure> launch = launches.get(name);
        return launch != null
                ? launch.join()
                : failure(Launcher.of(ranks).timeout(Duration.ofSeconds(60)), program, input);
    }

    private static <A extends Serializable, R extends Serializable> RankFailure failure(
            Launcher launcher, Class<? extends RankProgram<A, R>> program, A input) {
        launcher.output(new PrintStream(OutputStream.nullOutputStream()));
        long start = System.nanoTime();
        var failure = assertThrows(RankFailure.class, () -> launcher.run(program, input));
        double seconds = (System.nanoTime() - start) / 1e9;
        assertTrue(seconds < BOUND_S, "took " + seconds + " s");
        return failure;
    }

    static <T> CompletableFuture<T> inBackground(Supplier<T> run) {
        return CompletableFuture.supplyAsync(run, task -> new Thread(task).start());
    }
}
