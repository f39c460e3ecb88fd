package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.junit.jupiter.api.Test;

class LinkTopologyTest {
    private static final String FOUR_GPUS = """
            \t\u001b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u001b[0m
            GPU0\t X \tNV18\tNV18\tSYS\tPIX\t0-63\t0\t\tN/A
            GPU1\tNV18\t X \tNV18\tSYS\tNODE\t0-63\t0\t\tN/A
            GPU2\tNV18\tNV18\t X \tSYS\tNODE\t0-63\t0\t\tN/A
            GPU3\tSYS\tSYS\tSYS\t X \tSYS\t0-63\t0\t\tN/A
            NIC0\tPIX\tNODE\tNODE\tSYS\t X

            Legend:

              X    = Self
              NV#  = Connection traversing a bonded set of # NVLinks
            """;
    private static final String LINKS = """
            GPU 0: NVIDIA H200 (UUID: GPU-0)
            \t Link 0: 26.562 GB/s
            \t Link 1: 26.562 GB/s
            """;

    @Test
    void eachPairOfGpusHasItsLinks() {
        LinkTopology topology = LinkTopology.parse(FOUR_GPUS, LINKS);
        assertEquals(18, topology.nvLinks(0, 2));
        assertEquals(0, topology.nvLinks(0, 3), "through PCIe");
        assertEquals(18 * 26.562e9, topology.nvLinkBandwidth(1, 0), 1);
        assertEquals(0, topology.nvLinkBandwidth(2, 3));
        assertEquals(Map.of("NV18", 3, "SYS", 3), topology.pairs());
        assertEquals("X", topology.links().get(1).get(1));
    }

    @Test
    void oneGpuHasNoPairsAndLinksMayBeUnknown() {
        LinkTopology topology = LinkTopology.parse("\tGPU0\tCPU Affinity\nGPU0\t X \t0-15\n", "");
        assertEquals(Map.of(), topology.pairs());
        assertEquals(0, topology.linkBandwidth());
    }

    @Test
    void outputWithoutMatrixIsRejected() {
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> LinkTopology.parse("NVIDIA-SMI has failed because it couldn't communicate\n", ""))
                .getMessage();
        assertEquals(
                "topology must contain nvidia-smi's matrix of GPUs, not:"
                        + " NVIDIA-SMI has failed because it couldn't communicate",
                message);
    }
}
