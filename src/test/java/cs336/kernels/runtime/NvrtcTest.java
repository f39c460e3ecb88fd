package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests of the search for NVRTC outside of the class path. */
class NvrtcTest {
    private static final ClassLoader WITHOUT_JAR = ClassLoader.getPlatformClassLoader();

    @Test
    void theJarInTheLocalRepositoryReplacesThatOfTheClassPath() {
        Path onClassPath = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .map(Path::of)
                .filter(file -> file.getFileName().toString().startsWith("cuda-redist-"))
                .findFirst()
                .orElse(null);
        assumeTrue(onClassPath != null && onClassPath.getNameCount() > 5);
        // <repository>/org/bytedeco/cuda-redist/<version>/<jar>
        Path repository = onClassPath.resolve("../../../../..").normalize();
        Path found = Nvrtc.inRepository(repository);
        assertEquals(onClassPath, found);
        String[] libraries = Nvrtc.unpacked(found, WITHOUT_JAR);
        assertEquals(2, libraries.length);
        assertTrue(Arrays.stream(libraries).allMatch(library -> Files.exists(Path.of(library))));
    }

    @Test
    void anEmptyRepositoryHasNoLibraries(@TempDir Path repository) {
        assertNull(Nvrtc.unpacked(Nvrtc.inRepository(repository), WITHOUT_JAR));
    }
}
