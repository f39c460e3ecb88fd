package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.distributed.collectives.Rendezvous;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.World;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.bytedeco.pytorch.ByteVector;
import org.bytedeco.pytorch.TCPStore;
import org.bytedeco.pytorch.TCPStoreOptions;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Ranks of one machine cannot be reached from other machines, nor their store by other users. */
@Timeout(300)
class PrivateRendezvousTest {
    private static final String LISTENS = "0A"; // the state of a socket in /proc/net/tcp
    private static final Set<String> LOOPBACK =
            Set.of("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F");

    /** Returns the hexadecimal addresses and ports at which this process listens; see proc_pid_net(5). */
    static Set<String> listening() throws IOException {
        Set<String> own = openFiles();
        var found = new TreeSet<String>();
        for (String table : List.of("tcp", "tcp6")) {
            for (String line : Files.readAllLines(Path.of("/proc/self/net", table))) {
                String[] columns = line.strip().split("\\s+");
                if (columns[3].equals(LISTENS) && own.contains("socket:[" + columns[9] + "]")) {
                    found.add(columns[1]);
                }
            }
        }
        return found;
    }

    /** Runs a collective, and returns the addresses at which this rank listens and the token of the run. */
    public static final class Listening implements RankProgram<String, ArrayList<String>> {
        @Override
        public ArrayList<String> run(ProcessGroup group, String argument) throws IOException {
            try (var scope = MemoryScope.open()) {
                group.allReduce(torch.ones(new long[] {1}), Reduction.SUM);
            }
            var found = new ArrayList<>(listening());
            found.add(System.getenv(Rendezvous.TOKEN));
            return found;
        }
    }

    @Test
    void ranksOfOneMachineListenAtTheLoopbackAddressAndHaveARandomToken() throws Exception {
        List<ArrayList<String>> ranks = Launcher.of(2).run(Listening.class, "");
        String token = ranks.get(0).get(ranks.get(0).size() - 1);
        assertTrue(token.matches("[0-9a-f]{32}"), token);
        for (List<String> of : ranks) {
            assertEquals(token, of.get(of.size() - 1));
            assertTrue(of.size() > 1, "Gloo connects through TCP");
            for (String address : of.subList(0, of.size() - 1)) {
                assertTrue(LOOPBACK.contains(address.split(":")[0]), address);
            }
        }
    }

    /** Starts a rank like torchrun. */
    private static Process start(int rank, int port, String token, Path file) throws IOException {
        var variables = Map.of(
                "RANK",
                "" + rank,
                "WORLD_SIZE",
                "2",
                "LOCAL_RANK",
                "" + rank,
                "MASTER_ADDR",
                "127.0.0.1",
                "MASTER_PORT",
                "" + port,
                Rendezvous.TOKEN,
                token);
        return LauncherTest.launch(variables, "--timeout", "60", Patient.class.getName(), file.toString());
    }

    /** Runs its first collective after another process has written into the store, on rank 1 a little later. */
    public static final class Patient implements RankProgram<String[], String> {
        @Override
        public String run(ProcessGroup group, String[] file) throws Exception {
            System.out.println("ready");
            while (!Files.exists(Path.of(file[0]))) {
                Thread.sleep(20);
            }
            Thread.sleep(group.rank() * 300); // while rank 0 looks for the call of rank 1
            group.barrier();
            return "left in peace";
        }
    }

    @Test
    void aStrangerWithoutTheTokenDoesNotDisturbARun(@TempDir Path folder) throws Exception {
        try (var port = ReservedPort.any()) {
            Path file = folder.resolve("written");
            Process rank = start(0, port.number(), "c0ffee", file);
            Process other = start(1, port.number(), "c0ffee", file);
            try (var lines = rank.inputReader()) {
                while (!lines.readLine().contains("ready")) {
                    // The rank is still starting.
                }
                writeAsStranger(port.number());
                Files.writeString(file, "");
                List<String> rest = lines.lines().toList();
                assertEquals(0, rank.waitFor(), rest::toString);
                assertEquals(0, other.waitFor());
                assertTrue(rest.contains("[0] left in peace"), rest::toString);
            }
        }
    }

    /** Writes keys that rank 0 reads in a barrier and when it leaves, and that mean a failure. */
    private static void writeAsStranger(int port) {
        try (var scope = MemoryScope.open()) {
            var options = new TCPStoreOptions();
            options.port((short) port);
            options.waitWorkers(false);
            try (var store = new TCPStore("127.0.0.1", options)) {
                for (String key : List.of("first/1/1", "leaving/1", "watch/first", "watch/alarm")) {
                    store.set(key, new ByteVector("0\nforged".getBytes(StandardCharsets.UTF_8)));
                }
            }
        }
    }

    @Test
    void aStoreForOneMachineListensAtTheMasterAddressOnly() throws Exception {
        try (var port = ReservedPort.any()) {
            String end = ":%04X".formatted(port.number());
            var world = World.local(0, 1, port.number());
            try (var group = ProcessGroup.join(world, CollectiveBackend.GLOO, Duration.ofSeconds(20))) {
                assertEquals(
                        List.of("0100007F" + end),
                        listening().stream().filter(a -> a.endsWith(end)).toList());
            }
        }
    }

    @Test
    void theFolderOfTheStoreBelongsToThisUserAloneAndIsDeleted() throws Exception {
        Path store;
        try (var folder = new PrivateFolder();
                var other = new PrivateFolder()) {
            store = folder.file("store");
            assertNotEquals(store, other.file("store"));
            Files.writeString(store, "");
            assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(store.getParent())));
        }
        assertFalse(Files.exists(store.getParent()));
    }

    @Test
    void aFolderIsLockedUntilItIsClosed() throws Exception {
        Path lock;
        try (var folder = new PrivateFolder()) {
            lock = folder.file("lock");
            try (var channel = FileChannel.open(lock, StandardOpenOption.WRITE)) {
                assertThrows(OverlappingFileLockException.class, channel::tryLock);
            }
        }
        assertTrue(openFiles().stream().noneMatch(file -> file.startsWith(lock.toString())), "the lock is still open");
    }

    /** Returns the names of the files and sockets that this process has open. */
    private static Set<String> openFiles() throws IOException {
        var open = new HashSet<String>();
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            for (Path file : files.toList()) {
                try {
                    open.add(Files.readSymbolicLink(file).toString());
                } catch (NoSuchFileException e) {
                    // It was closed in the meantime.
                }
            }
        }
        return open;
    }

    @Test
    void aNewFolderDeletesThoseOfKilledProcesses() throws Exception {
        Path left = Files.createTempDirectory("cs336-run-");
        Files.writeString(left.resolve("lock"), "");
        Files.setLastModifiedTime(left, FileTime.from(Instant.now().minusSeconds(120)));
        try (var folder = new PrivateFolder()) {
            assertFalse(Files.exists(left));
        }
    }

    @Test
    void aFolderOfAKilledProcessIsDeletedLater(@TempDir Path parent) throws Exception {
        Path left = Files.createDirectory(parent.resolve("cs336-run-1"));
        Path other = Files.createDirectory(parent.resolve("cs336-run-2"));
        Path foreign = Files.createDirectory(parent.resolve("cs336-other"));
        for (Path each : List.of(left, other, foreign)) {
            Files.writeString(each.resolve("lock"), "");
        }
        try (var folder = new PrivateFolder();
                var channel = FileChannel.open(other.resolve("lock"), StandardOpenOption.WRITE);
                var lock = channel.lock()) {
            Instant future = Instant.now().plusSeconds(60);
            PrivateFolder.deleteStale(parent, Instant.now().minusSeconds(60));
            assertTrue(Files.exists(left), "it is too young");
            PrivateFolder.deleteStale(parent, future);
            assertFalse(Files.exists(left));
            assertTrue(Files.exists(other), "it is in use");
            assertTrue(Files.exists(foreign));
            assertTrue(lock.isValid());
            assertTrue(Files.exists(folder.file("lock")));
        }
    }
}
