package cs336.distributed.collectives;

import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
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
import java.util.stream.IntStream;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.FileStore;
import org.bytedeco.pytorch.IntOptional;
import org.bytedeco.pytorch.PrefixStore;
import org.bytedeco.pytorch.Store;
import org.bytedeco.pytorch.StringVector;
import org.bytedeco.pytorch.TCPStore;
import org.bytedeco.pytorch.TCPStoreOptions;

/**
 * The rendezvous of ranks: a c10d store of keys and values, hosted by rank 0 over TCP or kept in a shared file. The
 * rendezvous of a subgroup uses the same store with prefixed keys.
 */
public final class Rendezvous implements AutoCloseable {
    /** Additional time for a query beyond its limit, on a busy machine. */
    private static final Duration MARGIN = Duration.ofMillis(2500);

    /**
     * Shortest timeout for requests that do not depend on another rank; a tenth of the ranks' timeout if that is
     * longer.
     */
    private static final Duration LEAST_REQUEST_TIMEOUT = Duration.ofSeconds(2);

    /** Timeout for the reports of other ranks about a failure that ends all of them. */
    private static final Duration REPORT_TIMEOUT = Duration.ofSeconds(2);

    private static final long RETRY_MS = 20;

    /** Interval at which a rank that waits for others checks for a published failure. */
    private static final Duration POLL_INTERVAL = Duration.ofMillis(200);

    private static final String FAILED = "rendezvous failed";

    /**
     * Environment variable with a random text that the ranks of one run share. It prefixes all keys, so that a process
     * of another run does not join its rendezvous. c10d has no authentication: any process that can connect to a store
     * over TCP can list its keys. Ranks of several machines therefore need a trusted network.
     */
    public static final String TOKEN = "CS336_RUN_TOKEN";

    private final World world;
    private final List<Integer> members; // ranks of the world, in ascending order
    private final String prefix; // of all keys; empty for the group of all ranks
    private final Duration timeout;
    private final boolean inFile;
    private final Store owned; // the server on rank 0; closed by the rendezvous of all ranks, not by its last user
    private final Store store; // a clone with C++ reference counting, which process groups can share
    private final StoreTexts texts; // in the store
    private volatile boolean unresponsive;

    private Rendezvous(World world, Duration timeout, Store owned) {
        this.world = world;
        this.timeout = timeout;
        members = IntStream.range(0, world.size()).boxed().toList();
        prefix = "";
        inFile = owned instanceof FileStore;
        this.owned = MemoryScope.keep(owned);
        store = connection();
        store.setTimeout(milliseconds(timeout));
        texts = new StoreTexts(store);
    }

    private Rendezvous(Rendezvous whole, String name, List<Integer> members) {
        world = whole.world;
        timeout = whole.timeout;
        this.members = List.copyOf(members);
        prefix = whole.prefix + name + "/";
        inFile = whole.inFile;
        owned = whole.owned;
        store = connection();
        store.setTimeout(milliseconds(timeout));
        texts = new StoreTexts(store);
    }

    /**
     * Returns the rendezvous of a subgroup; must be closed before this one.
     *
     * @param name different for each subgroup of this group, equal on its ranks
     * @param some ranks of the world, in ascending order
     */
    Rendezvous subgroup(String name, List<Integer> some) {
        return request(() -> new Rendezvous(this, name, some));
    }

    private static Store withToken(Store store) {
        String token = System.getenv(TOKEN);
        String run = token == null ? "" : token.strip();
        if (isHostedByTorchrun()) {
            run += "/" + World.restarts(); // the agent's store outlives a restart
        }
        return run.isEmpty() ? store : new PrefixStore(run, store).clone();
    }

    /** Returns whether torchrun's agent hosts the store at the master address, as it does by default. */
    static boolean isHostedByTorchrun() {
        return "True".equals(System.getenv("TORCHELASTIC_USE_AGENT_STORE"));
    }

    /**
     * Connects to a store that rank 0 or torchrun's agent hosts over TCP. If all ranks are on one machine, rank 0
     * listens at the master address only, else on all network interfaces.
     *
     * @throws CollectiveFailure if rank 0 cannot listen at the port, or another rank cannot reach it in time
     */
    static Rendezvous atMaster(World world, Duration timeout) {
        Torch.logErrorsOnly();
        boolean hosts = world.rank() == 0 && !isHostedByTorchrun();
        if (!hosts) {
            awaitListener(world, timeout);
        }
        try {
            return withTimeout(timeout, () -> {
                var options = new TCPStoreOptions();
                options.port((short) world.masterPort());
                options.isServer(hosts);
                options.waitWorkers(false);
                InetAddress address = hosts ? awaitName(world, timeout) : null; // c10d would not say that it is unknown
                if (hosts && world.localSize() == world.size()) {
                    options.masterListenFd(new IntOptional(listeningSocket(address, world.masterPort())));
                }
                options.timeout(milliseconds(timeout));
                return new Rendezvous(world, timeout, new TCPStore(world.masterAddress(), options));
            });
        } catch (TimeoutException e) {
            throw new CollectiveFailure(
                    unreachable(world, timeout, "the listener does not respond; another program may use the port"), e);
        } catch (ExecutionException e) {
            throw new CollectiveFailure(unreachable(world, timeout, CollectiveFailure.reason(e.getCause())), e);
        }
    }

    /** Waits until the master address is known to the name server. */
    private static InetAddress awaitName(World world, Duration timeout) {
        try {
            return retry(timeout, left -> InetAddress.getByName(world.masterAddress()));
        } catch (IOException e) {
            throw new UncheckedIOException(reason(e), e);
        }
    }

    private static int listeningSocket(InetAddress address, int port) {
        try {
            return ListeningSocket.open(address, port);
        } catch (IOException e) {
            throw new UncheckedIOException(e.getMessage(), e);
        }
    }

    /** Opens a store in a file, which must not exist yet. */
    static Rendezvous inFile(World world, Duration timeout, Path file) {
        Torch.logErrorsOnly();
        try (var scope = MemoryScope.open()) {
            return new Rendezvous(
                    world, timeout, new FileStore(file.toAbsolutePath().toString(), world.size()));
        } catch (RuntimeException e) {
            throw new CollectiveFailure("store " + file + " could not be opened: " + CollectiveFailure.reason(e), e);
        }
    }

    /** Waits until rank 0 listens, because c10d would log every failed attempt to connect. */
    private static void awaitListener(World world, Duration timeout) {
        try {
            retry(timeout, left -> {
                try (var socket = new Socket()) {
                    socket.connect(new InetSocketAddress(world.masterAddress(), world.masterPort()), left);
                }
                return null;
            });
        } catch (IOException e) {
            throw new CollectiveFailure(unreachable(world, timeout, reason(e)), e);
        }
    }

    /** An attempt to use the network, which has this many milliseconds left, at least 1. */
    private interface NetworkAttempt<T> {
        T run(int left) throws IOException;
    }

    /** Repeats an attempt until it succeeds or the time is over; then it throws the last failure. */
    private static <T> T retry(Duration timeout, NetworkAttempt<T> attempt) throws IOException {
        long end = System.nanoTime() + timeout.toNanos();
        while (true) {
            try {
                return attempt.run((int)
                        Math.min(Integer.MAX_VALUE, Math.max(1, (end - System.nanoTime()) / 1_000_000)));
            } catch (IOException e) {
                if (System.nanoTime() >= end) {
                    throw e;
                }
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(RETRY_MS));
            }
        }
    }

    private static String reason(IOException e) {
        return e instanceof UnknownHostException
                ? "unknown host"
                : e instanceof SocketTimeoutException ? "connection timed out" : e.getMessage();
    }

    private static String unreachable(World world, Duration timeout, String reason) {
        String address = world.masterAddress() + ":" + world.masterPort();
        if (world.rank() > 0 || isHostedByTorchrun()) {
            return "rank " + world.rank() + " could not reach " + tcpHost() + " at " + address + " within "
                    + text(timeout) + ": " + reason;
        }
        return reason.contains("EADDRINUSE")
                ? "rank 0 cannot listen at port " + world.masterPort() + ": the port is in use; set another MASTER_PORT"
                : "rank 0 cannot listen at " + address + ": " + reason;
    }

    World world() {
        return world;
    }

    /** Returns the ranks of the group, by their numbers in the world. */
    List<Integer> members() {
        return members;
    }

    /** Returns the index of this process in {@link #members}. */
    int rank() {
        return members.indexOf(world.rank());
    }

    /** Returns whether this is the rendezvous of a subgroup. */
    boolean isOfSubgroup() {
        return !prefix.isEmpty();
    }

    Duration timeout() {
        return timeout;
    }

    /** Returns the value of {@link System#nanoTime} at which a timeout that begins now ends. */
    long deadline() {
        return System.nanoTime() + timeout.toNanos();
    }

    /** Returns what {@link #read} returns, but waits until a {@link #deadline}, which several reads may share. */
    String readUntil(String key, int member, long deadline) {
        return read(key, member, Duration.ofNanos(Math.max(1, deadline - System.nanoTime())));
    }

    Store store() {
        return store;
    }

    /** Returns another connection to the store, which does not wait for requests of the first one. */
    Store connection() {
        Store connected = withToken(owned.clone());
        return MemoryScope.keep(isOfSubgroup() ? new PrefixStore(prefix, connected).clone() : connected);
    }

    /**
     * Registers this rank and waits for all others.
     *
     * @param description information about this rank for the others
     * @return the description of each rank, in the order of ranks
     * @throws CollectiveFailure if another process has the same rank, or a rank does not arrive in time
     */
    List<String> register(String description) {
        if (request(() -> store.add("arrived/" + world.rank(), 1)) > 1) {
            throw new CollectiveFailure("rank " + world.rank() + " of " + world.size()
                    + " is already registered: two processes have this rank, or the store is of an earlier run");
        }
        post("here", world.size() + " " + description);
        long end = System.nanoTime() + timeout.toNanos();
        var all = new ArrayList<String>();
        for (int rank = 0; rank < world.size(); rank++) {
            String[] parts = arrival(rank, end).split(" ", 2);
            if (!parts[0].equals(String.valueOf(world.size()))) {
                throw failed("world size must be equal on all ranks; it is " + world.size() + " on rank " + world.rank()
                        + " and " + parts[0] + " on rank " + rank);
            }
            all.add(parts[1]);
        }
        return all;
    }

    /** Waits for the entry of a rank, or for a failure that another rank has published. */
    private String arrival(int rank, long end) {
        while (true) {
            long left = Math.max(1, end - System.nanoTime());
            String posted = read("here", rank, Duration.ofNanos(Math.min(left, POLL_INTERVAL.toNanos())));
            if (posted != null) {
                return posted;
            }
            if (has(FAILED)) {
                String message = get(FAILED);
                post("informed", ""); // then rank 0 may end
                throw new CollectiveFailure(message);
            }
            if (System.nanoTime() >= end) {
                throw failed(absent());
            }
        }
    }

    /**
     * Publishes a failure for all ranks. Rank 0, which may host the store, waits until the ranks that have arrived know
     * it.
     */
    private CollectiveFailure failed(String message) {
        publish(FAILED, message);
        post("informed", "");
        long end = System.nanoTime() + REPORT_TIMEOUT.toNanos();
        for (int rank = 1; world.rank() == 0 && rank < world.size(); rank++) {
            if (has(key("here", rank))) {
                readUntil("informed", rank, end);
            }
        }
        return new CollectiveFailure(message);
    }

    private String absent() {
        List<String> absent = IntStream.range(0, world.size())
                .filter(rank -> !has(key("here", rank)))
                .mapToObj(String::valueOf)
                .toList();
        return (absent.size() == 1 ? "rank " : "ranks ") + String.join(", ", absent) + " of " + world.size()
                + " did not arrive within " + text(timeout);
    }

    /** Publishes a text for the other ranks; at most once per name. */
    void post(String name, String text) {
        publish(key(name, world.rank()), text);
    }

    /** Publishes a text in place of an earlier one with this key, whichever rank published it. */
    void publish(String key, String text) {
        request(() -> {
            texts.set(key, text);
            return null;
        });
    }

    /** Returns the text that a rank published under a name, or null if it publishes none within the limit. */
    String read(String name, int rank, Duration limit) {
        String key = key(name, rank);
        return request(limit, () -> {
            if ((inFile || limit.compareTo(POLL_INTERVAL) <= 0) && !appears(key, limit)) {
                return null;
            }
            try {
                store._wait(new StringVector(key), milliseconds(limit));
            } catch (RuntimeException e) {
                if (texts.has(key)) {
                    throw e;
                }
                return null;
            }
            return texts.get(key);
        });
    }

    /**
     * Returns the end of an error message of a rank that could not connect to the group: the members that have not
     * reported the same failure. Waits at most two seconds, because ranks that cannot connect fail at the same time.
     */
    String silentMembers() {
        try {
            post("unconnected", "");
            long end = System.nanoTime() + REPORT_TIMEOUT.toNanos();
            List<Integer> silent = members.stream()
                    .filter(member -> readUntil("unconnected", member, end) == null)
                    .toList();
            return silent.isEmpty() ? "" : "; no report from ranks " + silent;
        } catch (CollectiveFailure e) {
            return "; " + e.getMessage();
        }
    }

    private String get(String key) {
        return request(() -> texts.get(key));
    }

    /**
     * Looks for a key repeatedly. c10d would wait for a file up to two seconds more than the limit, and each of its
     * timeouts collects a stack trace, which is slow.
     */
    private boolean appears(String key, Duration limit) {
        long end = System.nanoTime() + limit.toNanos();
        while (!texts.has(key)) {
            if (System.nanoTime() >= end) {
                return false;
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(RETRY_MS));
        }
        return true;
    }

    private boolean has(String key) {
        return request(() -> texts.has(key));
    }

    /** Runs a request that does not depend on another rank; a busy file system or host may take seconds to answer. */
    private <T> T request(Supplier<T> request) {
        Duration tenth = timeout.dividedBy(10);
        return request(tenth.compareTo(LEAST_REQUEST_TIMEOUT) > 0 ? tenth : LEAST_REQUEST_TIMEOUT, request);
    }

    private <T> T request(Duration limit, Supplier<T> request) {
        if (unresponsive) {
            throw new CollectiveFailure(host() + " does not respond");
        }
        try {
            return withTimeout(limit, request);
        } catch (TimeoutException e) {
            unresponsive = true;
            throw new CollectiveFailure(host() + " does not respond", e);
        } catch (ExecutionException e) {
            throw new CollectiveFailure(host() + " cannot be reached: " + CollectiveFailure.reason(e.getCause()), e);
        }
    }

    /**
     * Runs a request to the store on its own thread. If the network to rank 0 is cut, or another program listens at the
     * port, c10d waits forever, whatever the store's timeout.
     */
    private static <T> T withTimeout(Duration limit, Supplier<T> request) throws TimeoutException, ExecutionException {
        var response = new FutureTask<T>(() -> {
            try (var scope = MemoryScope.open()) {
                return request.get();
            }
        });
        var thread = new Thread(response, "store");
        thread.setDaemon(true);
        thread.start();
        try {
            return response.get(limit.plus(MARGIN).toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CollectiveFailure("interrupted during a request to the store", e);
        }
    }

    private String host() {
        return inFile ? "the file of the store" : tcpHost() + ", which hosts the store,";
    }

    private static String tcpHost() {
        return isHostedByTorchrun() ? "torchrun's agent" : "rank 0";
    }

    /** Returns the key of a rank's value in the store. */
    static String key(String name, int rank) {
        return name + "/" + rank;
    }

    static Milliseconds milliseconds(Duration duration) {
        return new Milliseconds(Math.max(1, duration.toMillis()));
    }

    /** Returns a duration as text, for example {@code 60 s} or {@code 2.5 s}. */
    public static String text(Duration duration) {
        return new BigDecimal(duration.toMillis())
                        .movePointLeft(3)
                        .stripTrailingZeros()
                        .toPlainString() + " s";
    }

    /** Disconnects from the store, unless a request is still unanswered. */
    @Override
    public void close() {
        if (unresponsive) {
            return;
        }
        store.close();
        if (!isOfSubgroup()) {
            owned.close();
        }
    }
}
