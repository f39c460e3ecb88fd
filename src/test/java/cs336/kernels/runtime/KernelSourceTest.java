package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KernelSourceTest {
    @Test
    void kernelsOfTheClassPathIncludeTheirHeaders() {
        KernelSource source = KernelSource.named("rmsnorm.cu");
        assertTrue(source.text().contains("rmsnorm_forward"));
        assertEquals(
                List.of("elements.cuh", "row_sum.cuh"),
                List.copyOf(source.includes().keySet()));
    }

    @Test
    void nestedAndCyclicIncludesAreFound(@TempDir Path folder) throws IOException {
        Files.writeString(folder.resolve("a.cu"), "#include \"b.cuh\"\n");
        Files.writeString(folder.resolve("b.cuh"), "#pragma once\n#include \"c.cuh\"\n");
        Files.writeString(folder.resolve("c.cuh"), "#pragma once\n#include \"b.cuh\"\n#include \"elements.cuh\"\n");
        KernelSource source = KernelSource.read(folder.resolve("a.cu"));
        assertEquals(
                List.of("b.cuh", "c.cuh", "elements.cuh"),
                List.copyOf(source.includes().keySet()));
    }

    @Test
    void missingFilesAreNamed() {
        String said = assertThrows(UncheckedIOException.class, () -> KernelSource.named("rmsnorn.cu"))
                .getMessage();
        assertTrue(said.contains("rmsnorn.cu"), said);
        String included = assertThrows(
                        UncheckedIOException.class, () -> KernelSource.of("a.cu", "#include \"missing.cuh\"\n"))
                .getMessage();
        assertEquals("kernel source a.cu could not be read: there is no file or folder kernels/missing.cuh", included);
    }
}
