package cs336.kernels.runtime;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Set;

/**
 * A cache of cubins on disk, one file per key. It ignores errors: a file that cannot be read or fails its checksum is a
 * cache miss, and a cubin that cannot be written is not cached. Files are moved into place atomically, so several
 * processes can use one folder.
 */
final class CubinFolder {
    private static final int CHECKSUM_BYTES = 32; // SHA-256
    private static final long LARGEST_FILE = 1L << 28;
    private static final Set<PosixFilePermission> PRIVATE = PosixFilePermissions.fromString("rwx------");

    private final Path folder; // null if nothing is cached

    /** @param folder the folder; null to cache nothing */
    CubinFolder(Path folder) {
        this.folder = folder;
    }

    /**
     * Returns the user's cache: {@code $XDG_CACHE_HOME/cs336/kernels}, by default {@code ~/.cache/cs336/kernels}. If
     * that folder is not writable, the cache is a folder in the temporary directory to which only the user has access;
     * if another user owns that one, nothing is cached.
     */
    static CubinFolder ofUser() {
        String given = System.getenv("XDG_CACHE_HOME");
        Path caches =
                given == null || given.isBlank() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(given);
        Path folder = caches.resolve("cs336").resolve("kernels");
        try {
            Files.createDirectories(folder);
            if (Files.isWritable(folder)) {
                return new CubinFolder(folder);
            }
        } catch (IOException e) {
            // the home directory is read-only, as in some containers
        }
        return ofPrivate(
                Path.of(System.getProperty("java.io.tmpdir"), "cs336-kernels-" + System.getProperty("user.name")));
    }

    /**
     * Returns a cache in a folder that this user owns and to which nobody else has access, because a cubin is executed.
     * Creates the folder if it is missing. Returns a cache that stores nothing if the folder is not private.
     */
    static CubinFolder ofPrivate(Path folder) {
        try {
            if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
                Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PRIVATE));
            }
            var attributes = Files.readAttributes(folder, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
            if (attributes.isDirectory() && attributes.permissions().equals(PRIVATE)) {
                Path mine = Files.createTempFile(folder, "owner", null);
                boolean owned = Files.getOwner(mine).equals(attributes.owner());
                Files.delete(mine);
                return new CubinFolder(owned ? folder : null);
            }
        } catch (IOException | UnsupportedOperationException e) {
            // nothing is cached
        }
        return new CubinFolder(null);
    }

    /** Returns the cubin of this key, or null if there is none or its file is damaged. */
    Cubin get(String key) {
        if (folder == null) {
            return null;
        }
        try {
            Path file = file(key);
            if (!Files.isRegularFile(file) || Files.size(file) > LARGEST_FILE) { // a pipe blocks
                return null;
            }
            ByteBuffer stored = ByteBuffer.wrap(Files.readAllBytes(file));
            byte[] checksum = new byte[CHECKSUM_BYTES];
            stored.get(checksum);
            if (!Arrays.equals(checksum, checksum(stored.slice()))) {
                return null;
            }
            byte[] log = bytes(stored);
            return new Cubin(bytes(stored), new String(log, StandardCharsets.UTF_8));
        } catch (IOException | BufferUnderflowException e) {
            return null;
        }
    }

    private static byte[] bytes(ByteBuffer stored) {
        int length = stored.getInt();
        if (length < 0 || length > stored.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] bytes = new byte[length];
        stored.get(bytes);
        return bytes;
    }

    /** Stores a cubin, if the folder is writable. */
    void put(String key, Cubin cubin) {
        if (folder == null) {
            return;
        }
        byte[] log = cubin.log().getBytes(StandardCharsets.UTF_8);
        ByteBuffer content = ByteBuffer.allocate(2 * Integer.BYTES + log.length + cubin.image().length)
                .putInt(log.length)
                .put(log)
                .putInt(cubin.image().length)
                .put(cubin.image())
                .flip();
        try {
            Files.createDirectories(folder);
            Path unfinished = Files.createTempFile(folder, "new", ".part");
            try {
                try (var out = Files.newOutputStream(unfinished)) {
                    out.write(checksum(content.duplicate()));
                    out.write(content.array());
                }
                Files.move(unfinished, file(key), StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(unfinished);
            }
        } catch (IOException e) {
            // not cached: the next process compiles it again
        }
    }

    private static byte[] checksum(ByteBuffer content) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(content);
            return digest.digest();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("SHA-256 is missing", e);
        }
    }

    private Path file(String key) {
        return folder.resolve(key + ".cubin");
    }
}
