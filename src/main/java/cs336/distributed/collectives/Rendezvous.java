package cs336.distributed.collectives;

import cs336.torch.MemoryScope;
import cs336.torch.NativeLog;
import java.io.IOException;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.ByteVector;
import org.bytedeco.pytorch.FileStore;
import org.bytedeco.pytorch.Store;
import org.bytedeco.pytorch.StringVector;
import org.bytedeco.pytorch.TCPStore;
import org.bytedeco.pytorch.TCPStoreOptions;

/** Where ranks find each other: a store of keys and values that rank 0 keeps, or a file that all of them see. */
public final class Rendezvous implements AutoCloseable {
    /** By which the store may answer later than it was asked to: a file's waits in whole seconds, and one more. */
    private static final Duration MARGIN = Duration.ofMillis(2500);

    /** For what no other rank has to do something for. */
    private static final Duration PROMPT = Duration.ofSeconds(2);

    private static final long RETRY_MS = 20;

    private static final String NO_ANSWER = "rank 0, which keeps the store, does not answer";

    private final World world;
    private final Duration timeout;
    private final Store first; // rank 0's keeps what all have left; this object frees it, and no C++ may
    private final Store store; // counted as C++ counts, so that process groups may share it
    private volatile boolean silent;

    private Rendezvous(World world, Duration timeout, Store first) {
        this.world = world;
        this.timeout = timeout;
        this.first = MemoryScope.keep(first);
        store = MemoryScope.keep(first.clone());
        store.setTimeout(milliseconds(timeout));
    }

    /**
     * At rank 0, over TCP.
     *
     * @throws CollectiveFailure if rank 0 cannot listen at the port, or the others do not reach it in time
     */
    static Rendezvous atMaster(World world, Duration timeout) {
        NativeLog.errorsOnly();
        if (world.rank() > 0) awaitListener(world, timeout);
        try {
            return bounded(timeout, () -> {
                var options = new TCPStoreOptions();
                options.port((short) world.masterPort());
                options.isServer(world.rank() == 0);
                options.waitWorkers(false);
                options.timeout(milliseconds(timeout));
                return new Rendezvous(world, timeout, new TCPStore(world.masterAddress(), options));
            });
        } catch (TimeoutException e) {
            throw new CollectiveFailure(
                    unreachable(
                            world,
                            timeout,
                            "what listens there does not answer; does the port belong to another program?"),
                    e);
        } catch (ExecutionException e) {
            throw new CollectiveFailure(unreachable(world, timeout, CollectiveFailure.reason(e.getCause())), e);
        }
    }

    /** In a file, which must not exist yet. */
    static Rendezvous inFile(World world, Duration timeout, Path file) {
        NativeLog.errorsOnly();
        try (var scope = MemoryScope.open()) {
            return new Rendezvous(
                    world, timeout, new FileStore(file.toAbsolutePath().toString(), world.size()));
        } catch (RuntimeException e) {
            throw new CollectiveFailure(
                    "ranks cannot meet in the file " + file + ": " + CollectiveFailure.reason(e), e);
        }
    }

    /** Rank 0 may be slower than this one; c10d would fill the screen with each attempt to reach it. */
    private static void awaitListener(World world, Duration timeout) {
        long end = System.nanoTime() + timeout.toNanos();
        while (true) {
            try (var socket = new Socket()) {
                int left = (int) Math.max(1, (end - System.nanoTime()) / 1_000_000);
                socket.connect(new InetSocketAddress(world.masterAddress(), world.masterPort()), left);
                return;
            } catch (IOException e) {
                if (System.nanoTime() >= end) {
                    String reason = e instanceof UnknownHostException
                            ? "no machine has that name"
                            : e instanceof SocketTimeoutException ? "no answer" : e.getMessage();
                    throw new CollectiveFailure(unreachable(world, timeout, reason), e);
                }
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(RETRY_MS));
            }
        }
    }

    private static String unreachable(World world, Duration timeout, String reason) {
        String place = world.masterAddress() + ":" + world.masterPort();
        if (world.rank() > 0) {
            return "rank " + world.rank() + " did not reach rank 0 at " + place + " within " + text(timeout) + ": "
                    + reason;
        }
        return reason.contains("EADDRINUSE")
                ? "rank 0 cannot listen at port " + world.masterPort() + ": it is in use; choose another MASTER_PORT"
                : "rank 0 cannot listen at " + place + ": " + reason;
    }

    World world() {
        return world;
    }

    Duration timeout() {
        return timeout;
    }

    Store store() {
        return store;
    }

    /**
     * Says that this rank is here, and waits for the others.
     *
     * @param about what the others are told of it
     * @return what each rank told, by rank
     * @throws CollectiveFailure if another process is the same rank, or some rank does not come in time
     */
    List<String> arrive(String about) {
        if (ask(PROMPT, () -> store.add("arrived/" + world.rank(), 1)) > 1) {
            throw new CollectiveFailure("rank " + world.rank() + " of " + world.size()
                    + " is there already: two processes have the same rank, or the place is of an earlier run");
        }
        post("here", world.size() + " " + about);
        long end = System.nanoTime() + timeout.toNanos();
        var all = new ArrayList<String>();
        for (int rank = 0; rank < world.size(); rank++) {
            String told = read("here", rank, Duration.ofNanos(Math.max(1, end - System.nanoTime())));
            if (told == null) throw new CollectiveFailure(absent());
            String[] parts = told.split(" ", 2);
            if (!parts[0].equals(String.valueOf(world.size()))) {
                throw new CollectiveFailure("the world has " + world.size() + " ranks for rank " + world.rank()
                        + ", but " + parts[0] + " for rank " + rank);
            }
            all.add(parts[1]);
        }
        return all;
    }

    private String absent() {
        var absent = new ArrayList<Integer>();
        for (int rank = 0; rank < world.size(); rank++) if (!has(key("here", rank))) absent.add(rank);
        String ranks = absent.stream().map(String::valueOf).collect(Collectors.joining(", "));
        return (absent.size() == 1 ? "rank " : "ranks ") + ranks + " of " + world.size() + " did not arrive within "
                + text(timeout);
    }

    /** Leaves a text for the other ranks, once under each name. */
    void post(String name, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ask(PROMPT, () -> {
            store.set(key(name, world.rank()), new ByteVector(bytes));
            return null;
        });
    }

    /** What a rank has left; waits for it, and returns null where it does not come within the limit. */
    String read(String name, int rank, Duration limit) {
        String key = key(name, rank);
        return ask(limit, () -> {
            try {
                store._wait(new StringVector(key), milliseconds(limit));
            } catch (RuntimeException e) {
                if (store.check(new StringVector(key))) throw e;
                return null;
            }
            return new String(store.get(key).get(), StandardCharsets.UTF_8);
        });
    }

    private boolean has(String key) {
        return ask(PROMPT, () -> store.check(new StringVector(key)));
    }

    private <T> T ask(Duration limit, Supplier<T> question) {
        if (silent) throw new CollectiveFailure(NO_ANSWER);
        try {
            return bounded(limit, question);
        } catch (TimeoutException e) {
            silent = true;
            throw new CollectiveFailure(NO_ANSWER, e);
        } catch (ExecutionException e) {
            throw new CollectiveFailure(
                    "rank 0, which keeps the store, cannot be reached: " + CollectiveFailure.reason(e.getCause()), e);
        }
    }

    /**
     * Asks a store on a thread of its own: where the network to rank 0 is cut, or another program listens at the port,
     * an answer is waited for without end, whatever timeout the store was given.
     */
    private static <T> T bounded(Duration limit, Supplier<T> question) throws TimeoutException, ExecutionException {
        var answer = new FutureTask<T>(() -> {
            try (var scope = MemoryScope.open()) {
                return question.get();
            }
        });
        var thread = new Thread(answer, "store");
        thread.setDaemon(true);
        thread.start();
        try {
            return answer.get(limit.plus(MARGIN).toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CollectiveFailure("interrupted while rank 0 was asked", e);
        }
    }

    private static String key(String name, int rank) {
        return name + "/" + rank;
    }

    static Milliseconds milliseconds(Duration duration) {
        return new Milliseconds(Math.max(1, duration.toMillis()));
    }

    /** As in {@code 60 s}, {@code 2.5 s}. */
    public static String text(Duration duration) {
        return new BigDecimal(duration.toMillis())
                        .movePointLeft(3)
                        .stripTrailingZeros()
                        .toPlainString() + " s";
    }

    /** Leaves the store, unless a question to it is still open. */
    @Override
    public void close() {
        if (silent) return;
        store.close();
        first.close();
    }
}
