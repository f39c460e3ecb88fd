package cs336.torch;

import java.io.IOException;
import java.net.JarURLConnection;
import java.net.URL;
import java.net.URLConnection;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.bytedeco.javacpp.Loader;

/**
 * Loads native libraries so that any number of processes may start at once. JavaCPP unpacks them from their jars into a
 * folder when they are first loaded, and a process that finds a half-written library there crashes. So the first one
 * locks the others out until it is done, and leaves a note; from then on nobody locks.
 */
public final class NativeCache {
    private static final String LOCK = "cs336.lock";

    private NativeCache() {}

    /** Loads what a class of the presets needs; unpacking gigabytes onto a slow disk takes minutes, once. */
    public static synchronized void load(Class<?> presets) {
        Path note = note(presets);
        if (note == null || Files.exists(note)) {
            Loader.load(presets);
            return;
        }
        try (var lock = FileChannel.open(
                        note.resolveSibling(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                var held = lock.lock()) {
            Loader.load(presets);
            Files.write(note, new byte[0]);
        } catch (IOException e) {
            Loader.load(presets); // the folder cannot be written: what is there was unpacked by someone else
        }
    }

    /** The file that says that this build of the libraries is unpacked; null where that cannot be told. */
    private static Path note(Class<?> presets) {
        try {
            String build = Loader.getPlatform() + System.getProperty("org.bytedeco.javacpp.platform.extension", "");
            URL library = presets.getResource("/org/bytedeco/pytorch/" + build + "/libjnitorch.so");
            if (library == null) return null;
            String name = presets.getSimpleName() + " " + build + " " + version(library);
            return Loader.getCacheDir().toPath().resolve("cs336-" + Integer.toHexString(name.hashCode()) + ".unpacked");
        } catch (IOException e) {
            return null;
        }
    }

    /** The jar with its time and size: a new one is unpacked anew. */
    private static String version(URL library) throws IOException {
        URLConnection connection = library.openConnection();
        if (!(connection instanceof JarURLConnection jar)) return library.toString();
        Path file = Path.of(jar.getJarFile().getName());
        return file + " " + Files.getLastModifiedTime(file) + " " + Files.size(file);
    }
}
