package cs336.distributed.launch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * A temporary folder that only this user can read. It is deleted when it is closed or this JVM exits. If the JVM is
 * killed, a later one deletes the folder: the lock on one of its files is free then.
 */
final class PrivateFolder implements AutoCloseable {
    private static final String PREFIX = "cs336-run-";
    private static final String LOCK = "lock";

    /** Age from which an unlocked folder is stale; a younger one may not be locked yet. */
    private static final Duration STALE = Duration.ofMinutes(1);

    /** The folders of this JVM. Opening and closing their lock files here would release the locks, see fcntl(2). */
    private static final Set<Path> OPEN = ConcurrentHashMap.newKeySet();

    private final Path path;
    private final FileChannel locked;
    private final Thread deletion = new Thread(() -> delete());

    PrivateFolder() throws IOException {
        path = Files.createTempDirectory(PREFIX); // with mode 0700
        OPEN.add(path);
        locked = FileChannel.open(file(LOCK), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        locked.lock();
        Runtime.getRuntime().addShutdownHook(deletion);
        deleteStale(path.getParent(), Instant.now().minus(STALE));
    }

    /** Deletes the folders that killed processes of this user have left and that were last changed before a time. */
    static void deleteStale(Path parent, Instant before) {
        try (DirectoryStream<Path> folders = Files.newDirectoryStream(parent, PREFIX + "*")) {
            for (Path folder : folders) {
                if (!OPEN.contains(folder)
                        && Files.getLastModifiedTime(folder).toInstant().isBefore(before)
                        && isUnlocked(folder)) {
                    delete(folder);
                }
            }
        } catch (IOException e) {
            // Another process deletes the same folders.
        }
    }

    private static boolean isUnlocked(Path folder) {
        try (var channel = FileChannel.open(folder.resolve(LOCK), StandardOpenOption.WRITE)) {
            return channel.tryLock() != null;
        } catch (IOException | OverlappingFileLockException e) {
            return false; // it belongs to another user
        }
    }

    /** Returns the path of a file in this folder. */
    Path file(String name) {
        return path.resolve(name);
    }

    private void delete() {
        delete(path);
        try {
            locked.close();
        } catch (IOException e) {
            // The lock ends with this JVM.
        }
    }

    private static void delete(Path folder) {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
            Files.deleteIfExists(folder);
        } catch (IOException | UncheckedIOException e) {
            // A rank that is still ending may have created a file again; the folder is left to the system.
        }
    }

    @Override
    public void close() {
        delete();
        OPEN.remove(path);
        try {
            Runtime.getRuntime().removeShutdownHook(deletion);
        } catch (IllegalStateException e) {
            // This JVM is shutting down.
        }
    }
}
