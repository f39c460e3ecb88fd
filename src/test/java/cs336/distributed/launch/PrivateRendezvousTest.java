package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.distributed.collectives.Rendezvous;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.World;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Ranks of one machine cannot be reached from other machines, nor their store by other users. */
@Timeout(60)
class PrivateRendezvousTest {
    private static final String LISTENS = "0A"; // the state of a socket in /proc/net/tcp
    private static final Set<String> LOOPBACK =
            Set.of("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F");

    /** Returns the hexadecimal addresses and ports at which this process listens; see proc_pid_net(5). */
    static Set<String> listening() throws IOException {
        var own = new HashSet<String>();
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            for (Path file : files.toList()) {
                try {
                    own.add(Files.readSymbolicLink(file).toString());
                } catch (NoSuchFileException e) {
                    // It was closed in the meantime.
                }
            }
        }
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
}
