package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.torch.Device;
import java.nio.file.Path;
import java.time.Instant;
import org.junit.jupiter.api.Test;

class ProvenanceTest {
    @Test
    void aGpuProductNameBecomesAFolderName() {
        assertEquals("h200", Provenance.shortName("NVIDIA H200"));
        assertEquals("rtx-4090", Provenance.shortName("NVIDIA GeForce RTX 4090"));
        assertEquals("a100-sxm4-80gb", Provenance.shortName("NVIDIA A100-SXM4-80GB"));
        assertEquals("t4", Provenance.shortName("Tesla T4"));
        assertEquals("gpu", Provenance.shortName("NVIDIA"));
    }

    @Test
    void theCpuIsNamedAfterItsCoresAndNotAfterItsHost() {
        Provenance here = Provenance.of(Device.cpu());
        int cores = Runtime.getRuntime().availableProcessors();
        assertEquals("cpu-" + cores + "core", here.machine());
        assertTrue(here.device().endsWith("(" + cores + " cores)"), here.device());
        assertTrue(here.versions().matches("pytorch \\d+\\.\\d+\\.\\d+-[\\d.]+; java \\d[\\d.]*"), here.versions());
        assertTrue(here.commit().matches("[0-9a-f]{7,40}(\\+dirty)?|unknown"), here.commit());
        assertEquals(here.device(), here.host());
        assertTrue(here.load().matches("\\d+\\.\\d\\d"), here.load());
        assertTrue(Instant.parse(here.date()).isAfter(Instant.parse("2026-01-01T00:00:00Z")));
    }

    @Test
    void theCommitIsThatOfTheWorkingFolder() {
        String head = Git.output(Path.of("").toAbsolutePath(), "rev-parse", "--short=10", "HEAD");
        assumeTrue(head != null && System.getenv("CS336_COMMIT") == null);
        assertTrue(Provenance.commitHere().matches(head + "(\\+dirty)?"), Provenance.commitHere());
    }

    @Test
    void aMachineNameMustBeAValidFolderName() {
        assertEquals("lab-3", MeasurementsTest.HERE.named("lab-3").machine());
        assertEquals("h200", MeasurementsTest.HERE.named(null).machine());
        for (String bad : new String[] {"", "../x", "a/b", ".hidden", "zwei Worte"}) {
            assertThrows(IllegalArgumentException.class, () -> MeasurementsTest.HERE.named(bad), bad);
        }
    }
}
