package cs336.kernels.runtime;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * A cache of cubins on disk, one file per key. It ignores errors: a file that cannot be read is a cache miss, and a
 * cubin that cannot be written is not cached. Files are moved into place atomically, so several processes can use one
 * folder.
 */
final class CubinFolder {
    private final Path folder;

    CubinFolder(Path folder) {
        this.folder = folder;
    }

    /**
     * Returns the user's cache: {@code $XDG_CACHE_HOME/cs336/kernels}, by default {@code ~/.cache/cs336/kernels}, or a
     * folder in the temporary directory if that one is not writable.
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
        return new CubinFolder(
                Path.of(System.getProperty("java.io.tmpdir"), "cs336-kernels-" + System.getProperty("user.name")));
    }

    /** Returns the cubin of this key, or null if there is none or its file is damaged. */
    Cubin get(String key) {
        try {
            Path file = file(key);
            if (!Files.exists(file)) {
                return null;
            }
            var in = new DataInputStream(new ByteArrayInputStream(Files.readAllBytes(file)));
            byte[] log = new byte[in.readInt()];
            in.readFully(log);
            byte[] image = new byte[in.readInt()];
            in.readFully(image);
            return new Cubin(image, new String(log, StandardCharsets.UTF_8));
        } catch (IOException | NegativeArraySizeException e) {
            return null;
        }
    }

    /** Stores a cubin, if the folder is writable. */
    void put(String key, Cubin cubin) {
        try {
            Files.createDirectories(folder);
            var bytes = new ByteArrayOutputStream();
            try (var out = new DataOutputStream(bytes)) {
                byte[] log = cubin.log().getBytes(StandardCharsets.UTF_8);
                out.writeInt(log.length);
                out.write(log);
                out.writeInt(cubin.image().length);
                out.write(cubin.image());
            }
            Path unfinished = Files.createTempFile(folder, "new", ".part");
            Files.write(unfinished, bytes.toByteArray());
            Files.move(unfinished, file(key), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            // not cached: the next process compiles it again
        }
    }

    private Path file(String key) {
        return folder.resolve(key + ".cubin");
    }
}
