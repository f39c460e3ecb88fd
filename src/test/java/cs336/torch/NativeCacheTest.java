package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.ChildJvm;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.javacpp.Loader;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Processes that load libtorch from a cache folder of their own. */
@Timeout(300)
class NativeCacheTest {
    private static final String DIRECT = "LOAD_DIRECTLY";

    @TempDir
    Path cache;

    /** Computes with libtorch, and answers with the number of libraries that JavaCPP's loader has loaded. */
    static final class Loads {
        public static void main(String[] arguments) {
            System.setProperty("cs336.loadDirectly", System.getenv(DIRECT)); // whatever this JVM inherited
            var parent = new ChildJvm.Child();
            Torch.load();
            long elements = torch.ones(3, 4).sum().item_long();
            boolean findsLibrary = Torch.library("libtorch_cpu.so").getFile().exists();
            parent.answer(elements + " " + findsLibrary + " "
                    + Loader.getLoadedLibraries().size());
            parent.end(0);
        }
    }

    private int librariesLoadedByJavaCpp(boolean direct) throws Exception {
        var options =
                Map.of("JAVA_TOOL_OPTIONS", "-Dorg.bytedeco.javacpp.cachedir=" + cache, DIRECT, String.valueOf(direct));
        try (var process = ChildJvm.start(Loads.class, options, line -> {})) {
            String answer = process.answer(Duration.ofSeconds(240));
            assertTrue(answer != null && answer.startsWith("12 true "), () -> answer + end(process));
            return Integer.parseInt(answer.split(" ")[2]);
        }
    }

    private static List<String> end(ChildJvm process) {
        try {
            return process.end().lastLines();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void listedLibrariesAreLoadedDirectlyAndMissingOnesUnpackedAgain() throws Exception {
        linkUnpackedLibraries();
        assertTrue(librariesLoadedByJavaCpp(true) > 5, "the first process has no list");
        assertEquals(0, librariesLoadedByJavaCpp(true), "the second process has a list");
        assertTrue(librariesLoadedByJavaCpp(false) > 5, "without the property, JavaCPP loads");
        Path deleted = find("libc10.so");
        Files.delete(deleted);
        assertTrue(librariesLoadedByJavaCpp(true) > 5, "a listed file is missing");
        assertTrue(Files.exists(deleted));
        assertEquals(0, librariesLoadedByJavaCpp(true), "all listed files exist again");
        Path list = find("libraries");
        Files.write(list, List.of(list.toString()));
        assertTrue(librariesLoadedByJavaCpp(true) > 5, "a listed file is not a library");
    }

    /** Fills the cache with links to the libraries that this process uses, which JavaCPP then need not unpack. */
    private void linkUnpackedLibraries() throws IOException {
        Torch.load();
        Path used = Loader.getCacheDir().toPath();
        try (Stream<Path> all = Files.walk(used)) {
            for (Path path : (Iterable<Path>) all::iterator) {
                Path copy = cache.resolve(used.relativize(path).toString());
                if (Files.isDirectory(path)) {
                    Files.createDirectories(copy);
                } else if (Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)
                        && !path.getParent().equals(used)
                        && !path.toString().contains("cuda-redist")) {
                    link(path, copy);
                }
            }
        }
    }

    private static void link(Path path, Path copy) throws IOException {
        try {
            Files.createLink(copy, path);
        } catch (FileSystemException e) { // the cache is on another file system
            Files.copy(path, copy, StandardCopyOption.COPY_ATTRIBUTES);
        }
    }

    private Path find(String end) throws IOException {
        try (Stream<Path> all = Files.walk(cache)) {
            return all.filter(path -> path.toString().endsWith(end)).findFirst().orElseThrow();
        }
    }
}
