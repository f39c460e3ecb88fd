package cs336.checkpoints;

import cs336.basics.Checkpoint;
import cs336.basics.Optimizer;
import cs336.safetensors.Safetensors;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.pytorch.Tensor;

/**
 * The folder of one training run's checkpoints. The last two are kept, so that a damaged one has a predecessor.
 *
 * <p>{@link #save} copies the tensors, and a background thread writes the file while training continues. A file gets
 * its final name, such as {@code step-000000100.safetensors}, when it is complete and on disk. Its checksum covers all
 * of its bytes.
 *
 * <p>One process at a time uses a folder: a distributed run opens it on rank 0. Only one thread at a time may call its
 * methods.
 */
public final class CheckpointFolder implements AutoCloseable {
    private static final Pattern NAME = Pattern.compile("step-(\\d{9,18})\\.safetensors");
    private static final int KEPT = 2;

    /** The folders that this process has opened. Closing a second channel of a lock file would release its lock. */
    private static final Set<Path> OPEN = ConcurrentHashMap.newKeySet();

    private final Path folder;
    private final Path real; // without symbolic links
    private final FileChannel lock;
    private CompletableFuture<Void> pending = CompletableFuture.completedFuture(null);

    private CheckpointFolder(Path folder, Path real, FileChannel lock) {
        this.folder = folder;
        this.real = real;
        this.lock = lock;
    }

    /**
     * Opens a folder, creates it if it is missing, and deletes the unfinished files of a process that was killed.
     *
     * @throws IOException if the folder is already open, in this or another process, or files cannot be created in it
     */
    public static CheckpointFolder open(Path folder) throws IOException {
        Objects.requireNonNull(folder, "folder must not be null");
        Files.createDirectories(folder);
        Path real = folder.toRealPath();
        if (!OPEN.add(real)) {
            throw inUse(folder);
        }
        FileChannel lock = null;
        try {
            lock = FileChannel.open(folder.resolve(".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (lock.tryLock() == null) {
                throw inUse(folder);
            }
            try (var unfinished = Files.newDirectoryStream(folder, "step-*.part")) {
                for (Path file : unfinished) {
                    Files.delete(file);
                }
            }
            return new CheckpointFolder(folder, real, lock);
        } catch (IOException | RuntimeException e) {
            if (lock != null) {
                lock.close();
            }
            OPEN.remove(real);
            throw e;
        }
    }

    private static IOException inUse(Path folder) {
        return new IOException(folder + " is in use by another training run");
    }

    /** Returns the number of trained steps of the last checkpoint in a folder; −1 if there is none. */
    public static long lastStep(Path folder) throws IOException {
        Objects.requireNonNull(folder, "folder must not be null");
        List<Path> files = newestFirst(folder);
        return files.isEmpty() ? -1 : step(files.get(0));
    }

    private static List<Path> newestFirst(Path folder) throws IOException {
        var files = new ArrayList<Path>();
        if (Files.isDirectory(folder)) {
            try (var all = Files.newDirectoryStream(
                    folder, file -> NAME.matcher(file.getFileName().toString()).matches())) {
                all.forEach(files::add);
            }
        }
        files.sort(Comparator.comparingLong(CheckpointFolder::step).reversed());
        return files;
    }

    /** Returns the number of trained steps in the name of a checkpoint; −1 if another file has this name. */
    static long step(Path file) {
        Matcher name = NAME.matcher(file.getFileName().toString());
        return name.matches() ? Long.parseLong(name.group(1)) : -1;
    }

    /**
     * Returns the last intact checkpoint. Damaged ones after it are renamed: their names then end with
     * {@code .damaged}.
     *
     * @param damage receives a line for each damaged checkpoint
     * @return the file, or null if the folder has no checkpoints
     * @throws IOException if all checkpoints are damaged, one cannot be read, or the thread is interrupted
     * @throws IllegalStateException if the folder is closed
     */
    public Path latest(Consumer<String> damage) throws IOException {
        requireOpen();
        var damaged = new LinkedHashMap<Path, String>();
        for (Path file : newestFirst(folder)) {
            try (Safetensors saved = Safetensors.open(file)) {
                saved.requireIntact();
            } catch (FileSystemException e) {
                throw e;
            } catch (ClosedByInterruptException e) { // the file may be intact
                throw new IOException("interrupted while " + file + " was read", e);
            } catch (IOException e) {
                damaged.put(file, e.getMessage());
                continue;
            }
            for (var each : damaged.entrySet()) {
                damage.accept(each.getValue() + "; the last complete checkpoint is " + file);
                Files.move(
                        each.getKey(),
                        each.getKey().resolveSibling(each.getKey().getFileName() + ".damaged"),
                        StandardCopyOption.REPLACE_EXISTING);
            }
            return file;
        }
        if (!damaged.isEmpty()) {
            throw new IOException(damaged.values().iterator().next() + "; " + folder + " has no complete checkpoint");
        }
        return null;
    }

    /**
     * Saves a checkpoint in the background. The tensors may change as soon as this method returns. It first waits for
     * the previous checkpoint.
     *
     * @param tensors parameters and other tensors to load in place, by name
     * @param kind the optimizer that the state belongs to, see {@link Optimizer#kind}
     * @param state the optimizer's tensors by name, see {@link Optimizer#state}
     * @return the file, which exists when the next call or {@link #close} returns
     * @throws IOException if the previous checkpoint could not be written
     * @throws IllegalStateException if writing the previous checkpoint failed for another reason than an I/O error,
     *     such as a name that {@link Checkpoint#save} rejects, or if the folder is closed
     */
    public Path save(TrainingProgress progress, Map<String, Tensor> tensors, String kind, Map<String, Tensor> state)
            throws IOException {
        requireOpen();
        awaitWritten();
        Path file = folder.resolve(String.format(Locale.ROOT, "step-%09d.safetensors", progress.steps()));
        Map<String, Tensor> tensorCopies = copies(tensors);
        Map<String, Tensor> stateCopies = copies(state);
        var writing = new CompletableFuture<Void>();
        var writer = new Thread(() -> {
            try {
                Checkpoint.save(file, tensorCopies, kind, stateCopies, progress.metadata());
                deleteOld();
                writing.complete(null);
            } catch (IOException e) {
                writing.completeExceptionally(
                        new IOException("checkpoint " + file + " could not be written: " + e.getMessage(), e));
            } catch (Throwable e) {
                writing.completeExceptionally(e);
            } finally {
                tensorCopies.values().forEach(Tensor::close);
                stateCopies.values().forEach(Tensor::close);
            }
        });
        writer.setDaemon(true);
        writer.start();
        pending = writing; // not if there are too many threads: close() would wait forever
        return file;
    }

    private void requireOpen() {
        if (!lock.isOpen()) {
            throw new IllegalStateException("checkpoint folder " + folder + " is closed");
        }
    }

    /** Returns copies on the CPU, outside of every memory scope. */
    private static Map<String, Tensor> copies(Map<String, Tensor> tensors) {
        var copies = new LinkedHashMap<String, Tensor>();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            tensors.forEach((name, tensor) -> {
                Tensor detached = tensor.detach();
                copies.put(name, MemoryScope.keep(detached.is_cuda() ? detached.cpu() : detached.clone()));
            });
        }
        return copies;
    }

    private void deleteOld() throws IOException {
        List<Path> files = newestFirst(folder);
        for (Path file : files.subList(Math.min(KEPT, files.size()), files.size())) {
            Files.delete(file);
        }
    }

    /**
     * Waits until the last checkpoint is written.
     *
     * @throws IOException if it could not be written; later calls then return
     * @throws IllegalStateException if writing failed for another reason than an I/O error; later calls then return
     */
    public void awaitWritten() throws IOException {
        try {
            pending.join(); // an interrupt must not release the folder while a file is written
        } catch (CompletionException e) {
            if (e.getCause() instanceof IOException cause) {
                throw cause;
            }
            Throwable cause = e.getCause();
            throw new IllegalStateException("the checkpoint could not be written: " + cause.getMessage(), cause);
        } finally {
            pending = CompletableFuture.completedFuture(null);
        }
    }

    /**
     * Waits for the last checkpoint and lets other processes use the folder.
     *
     * @throws IOException if the last checkpoint could not be written
     */
    @Override
    public void close() throws IOException {
        if (!lock.isOpen()) {
            return;
        }
        try (lock) {
            awaitWritten();
        } finally {
            OPEN.remove(real);
        }
    }
}
