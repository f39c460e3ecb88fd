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
 * The loader of native libraries, safe for processes that start at the same time. JavaCPP unpacks the libraries from
 * their jars into a cache folder at the first load, and a process that loads a half-written library crashes. Therefore
 * the first process holds a file lock while it unpacks and then writes a marker file. Later loads take no lock.
 */
public final class NativeCache {
    private static final String LOCK = "cs336.lock";

    private NativeCache() {}

    /**
     * Loads the libraries of a presets class. Unpacking gigabytes at the first load can take minutes on a slow disk.
     */
    public static synchronized void load(Class<?> presets) {
        Path marker = marker(presets);
        if (marker == null || Files.exists(marker)) {
            Loader.load(presets);
            return;
        }
        try (var lock = FileChannel.open(
                        marker.resolveSibling(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                var held = lock.lock()) {
            Loader.load(presets);
            Files.write(marker, new byte[0]);
        } catch (IOException e) {
            Loader.load(presets); // a read-only cache folder, already unpacked
        }
    }

    /** Returns the file that marks this build of the libraries as unpacked, or null if the build is unknown. */
    private static Path marker(Class<?> presets) {
        try {
            String build = Loader.getPlatform() + System.getProperty("org.bytedeco.javacpp.platform.extension", "");
            URL library = presets.getResource("/org/bytedeco/pytorch/" + build + "/libjnitorch.so");
            if (library == null) {
                return null;
            }
            String name = presets.getSimpleName() + " " + build + " " + version(library);
            return Loader.getCacheDir().toPath().resolve("cs336-" + Integer.toHexString(name.hashCode()) + ".unpacked");
        } catch (IOException e) {
            return null;
        }
    }

    /** Returns the path, time and size of the jar, so that a new jar is unpacked again. */
    private static String version(URL library) throws IOException {
        URLConnection connection = library.openConnection();
        if (!(connection instanceof JarURLConnection jar)) {
            return library.toString();
        }
        Path file = Path.of(jar.getJarFile().getName());
        return file + " " + Files.getLastModifiedTime(file) + " " + Files.size(file);
    }
}
