package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

class CubinFolderTest {
    @TempDir
    Path folder;

    private static final Cubin CUBIN = new Cubin(new byte[] {1, 2, 3, 4, 5, 6, 7, 8}, "Used 24 registers, µ");

    private static void assertStored(CubinFolder cache) {
        Cubin found = cache.get("key");
        assertNotNull(found);
        assertArrayEquals(CUBIN.image(), found.image());
        assertEquals(CUBIN.log(), found.log());
    }

    @Test
    void aStoredCubinIsReadBackAndLeavesNoOtherFile() throws IOException {
        var cache = new CubinFolder(folder);
        assertNull(cache.get("key"));
        cache.put("key", CUBIN);
        assertStored(cache);
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(1, files.count());
        }
    }

    /** Truncated files, changed bytes, and declared lengths of up to 2 GB are cache misses. */
    @Test
    void anyDamageIsACacheMiss() throws IOException {
        var cache = new CubinFolder(folder);
        cache.put("key", CUBIN);
        Path file = folder.resolve("key.cubin");
        byte[] whole = Files.readAllBytes(file);
        for (int length = 0; length < whole.length; length++) {
            Files.write(file, Arrays.copyOf(whole, length));
            assertNull(cache.get("key"), length + " bytes");
        }
        var random = new Random(336);
        int tried = AttackCount.times(2000);
        for (int i = 0; i < tried; i++) {
            byte[] damaged = whole.clone();
            damaged[random.nextInt(whole.length)] ^= (byte) (1 + random.nextInt(255));
            Files.write(file, damaged);
            assertNull(cache.get("key"));
        }
        Files.write(file, new byte[] {0x7f, -1, -1, -1});
        assertNull(cache.get("key"));
        AttackCount.inputs(whole.length + tried + 1, "damaged cached kernels");
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    @Timeout(value = 20, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void whatIsNoFileIsACacheMiss() throws Exception {
        var cache = new CubinFolder(folder);
        Path file = folder.resolve("key.cubin");
        Files.createDirectory(file);
        assertNull(cache.get("key"));
        Files.delete(file);
        Files.createSymbolicLink(file, file);
        assertNull(cache.get("key"));
        Files.delete(file);
        assertEquals(0, new ProcessBuilder("mkfifo", file.toString()).start().waitFor());
        assertNull(cache.get("key"));
        cache.put("key", CUBIN);
        assertStored(cache);
        AttackCount.inputs(3, "cached kernels that are no files");
    }

    @Test
    void aPrivateFolderIsAccessibleToThisUserOnly() throws IOException {
        Path created = folder.resolve("kernels");
        CubinFolder.ofPrivate(created).put("key", CUBIN);
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(created)));
        assertStored(CubinFolder.ofPrivate(created));

        for (String permissions : new String[] {"rwxrwxrwx", "rwx-w----", "rwxr-xr-x"}) {
            Files.setPosixFilePermissions(created, PosixFilePermissions.fromString(permissions));
            var shared = CubinFolder.ofPrivate(created);
            shared.put("other", CUBIN);
            assertNull(shared.get("key"), permissions);
            assertNull(shared.get("other"), permissions);
        }
    }

    @Test
    void aLinkIsNotAPrivateFolder() throws IOException {
        Path target = folder.resolve("target");
        CubinFolder.ofPrivate(target).put("key", CUBIN);
        Path link = Files.createSymbolicLink(folder.resolve("link"), target);
        assertNull(CubinFolder.ofPrivate(link).get("key"));
        Path dangling = Files.createSymbolicLink(folder.resolve("dangling"), folder.resolve("none"));
        CubinFolder.ofPrivate(dangling).put("key", CUBIN);
        assertTrue(Files.notExists(folder.resolve("none")));
    }
}
