package cs336.torch;

import java.io.IOException;
import java.net.JarURLConnection;
import java.net.URL;
import java.net.URLConnection;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.javacpp.ClassProperties;
import org.bytedeco.javacpp.Loader;

/**
 * The loader of native libraries, safe for processes that start at the same time. JavaCPP unpacks the libraries from
 * their jars into a cache folder at the first load, and a process that loads a half-written library crashes. Therefore
 * the first process holds a file lock while it unpacks. It then writes the list of the unpacked files.
 *
 * <p>With the system property {@code cs336.loadDirectly=true}, later processes load the listed files of the CPU build
 * directly. JavaCPP would search every jar of the class path for each of them, again in the static initializer of each
 * class of the presets that is used. This takes more CPU time than loading libtorch. JavaCPP's own loading is then
 * switched off, and presets other than PyTorch's must be loaded with {@link #load} before they are used. Tests set the
 * property, because they start hundreds of processes.
 */
public final class NativeCache {
    private static final String LOCK = "cs336.lock";
    private static final String DIRECT = "cs336.loadDirectly";

    /** JavaCPP's property without which its loader does nothing; it reads the property at each call. */
    private static final String LOADER_IS_ON = "org.bytedeco.javacpp.loadlibraries";

    private NativeCache() {}

    /**
     * Loads the libraries of a presets class. Unpacking gigabytes at the first load can take minutes on a slow disk.
     *
     * @return the file of the presets' own library
     */
    public static synchronized Path load(Class<?> presets) {
        Path list = list(presets);
        if (!loadsDirectly()) {
            return Path.of(list == null || Files.exists(list) ? Loader.load(presets) : last(unpack(presets, list)));
        }
        List<String> files = read(list);
        if (files.isEmpty() || !loadAll(files)) {
            System.setProperty(LOADER_IS_ON, "true");
            files = list == null ? List.of(Loader.load(presets)) : unpack(presets, list);
            System.setProperty(LOADER_IS_ON, "false");
        }
        return Path.of(last(files));
    }

    private static boolean loadsDirectly() {
        return Boolean.getBoolean(DIRECT) && GpuBuild.extension().isEmpty();
    }

    private static String last(List<String> files) {
        return files.get(files.size() - 1);
    }

    /** Returns the listed files; none if there is no list. */
    private static List<String> read(Path list) {
        try {
            return list != null && Files.exists(list) ? Files.readAllLines(list) : List.of();
        } catch (IOException e) {
            return List.of();
        }
    }

    /** Loads files without JavaCPP's loader; returns whether all exist and could be loaded. */
    private static boolean loadAll(List<String> files) {
        System.setProperty(LOADER_IS_ON, "false");
        try {
            for (String file : files) {
                System.load(file);
            }
            return true;
        } catch (UnsatisfiedLinkError e) {
            return false; // a file was deleted from the cache, and JavaCPP unpacks it again
        }
    }

    /** Unpacks and loads the libraries, and writes the list of their files. */
    private static List<String> unpack(Class<?> presets, Path list) {
        try (var lock = FileChannel.open(
                        list.resolveSibling(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                var held = lock.lock()) {
            List<String> files = files(presets, Loader.load(presets));
            Path written = list.resolveSibling(list.getFileName() + ".new");
            Files.write(written, files);
            Files.move(written, list, StandardCopyOption.ATOMIC_MOVE);
            return files;
        } catch (IOException e) {
            return List.of(Loader.load(presets)); // a read-only cache folder, already unpacked
        }
    }

    /**
     * Returns the files of the loaded libraries in an order in which they can be loaded.
     *
     * @param own the file of the presets' own library, which is the last
     */
    private static List<String> files(Class<?> presets, String own) {
        ClassProperties properties = Loader.loadProperties(presets, Loader.loadProperties(), true);
        Map<String, String> loaded = Loader.getLoadedLibraries();
        var names = new ArrayList<String>(properties.get("platform.preload"));
        names.addAll(properties.get("platform.link"));
        loaded.keySet().stream().filter(name -> name.startsWith("jni")).sorted().forEach(names::add);
        var files = new ArrayList<String>(names.stream()
                .map(loaded::get)
                .filter(Objects::nonNull)
                .distinct()
                .toList());
        files.remove(own);
        files.add(own);
        return files;
    }

    /** Returns the file that lists the unpacked libraries of this build, or null if the build is unknown. */
    private static Path list(Class<?> presets) {
        try {
            String build = Loader.getPlatform() + GpuBuild.extension();
            URL library = presets.getResource("/org/bytedeco/pytorch/" + build + "/libjnitorch.so");
            if (library == null) {
                return null;
            }
            String name = presets.getSimpleName() + " " + build + " " + version(library);
            return Loader.getCacheDir()
                    .toPath()
                    .resolve("cs336-" + Integer.toHexString(name.hashCode()) + ".libraries");
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
