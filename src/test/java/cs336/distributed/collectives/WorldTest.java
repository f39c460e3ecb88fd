package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class WorldTest {
    static final Map<String, String> TORCHRUN = Map.of(
            "RANK", "5",
            "WORLD_SIZE", "8",
            "LOCAL_RANK", "1",
            "LOCAL_WORLD_SIZE", "4",
            "MASTER_ADDR", "node1",
            "MASTER_PORT", "29500");

    static final Map<String, String> SLURM = Map.of(
            "SLURM_PROCID", "4",
            "SLURM_NTASKS", "5",
            "SLURM_LOCALID", "1",
            "SLURM_NODEID", "1",
            "SLURM_STEP_TASKS_PER_NODE", "3,2",
            "SLURM_NTASKS_PER_NODE", "3", // as requested; the second node has fewer
            "SLURM_STEP_NODELIST", "node[03-04]",
            "SLURM_JOB_ID", "12345");

    static Map<String, String> with(Map<String, String> variables, String name, String value) {
        var changed = new HashMap<>(variables);
        if (value == null) {
            changed.remove(name);
        } else {
            changed.put(name, value);
        }
        return changed;
    }

    static String error(Map<String, String> variables) {
        return assertThrows(IllegalArgumentException.class, () -> World.of(variables))
                .getMessage();
    }

    @Test
    void torchrunsVariablesAreRead() {
        assertEquals(new World(5, 8, 1, 4, 2, "node1", 29500), World.of(TORCHRUN));
    }

    @Test
    void slurmsVariablesAreReadAndTheLocalSizeIsTheNodes() {
        assertEquals(new World(4, 5, 1, 2, 2, "node03", 22345), World.of(SLURM));
        assertEquals(28433, World.of(with(SLURM, "SLURM_JOB_ID", "4227858433")).masterPort(), "of a federated cluster");
        assertEquals(
                2, World.of(with(SLURM, "SLURM_STEP_TASKS_PER_NODE", "2(x2),1")).localSize());
        assertEquals(3, World.of(with(SLURM, "SLURM_STEP_TASKS_PER_NODE", null)).localSize(), "as requested");
        assertEquals("other", World.of(with(SLURM, "MASTER_ADDR", "other")).masterAddress());
        assertEquals(1234, World.of(with(SLURM, "MASTER_PORT", "1234")).masterPort());
    }

    /** All ranks must agree, also those on nodes with fewer ranks. */
    @Test
    void nodesAreCountedEvenIfTheyHaveDifferentNumbersOfRanks() {
        var uneven = with(with(SLURM, "SLURM_STEP_TASKS_PER_NODE", "2,1(x3)"), "SLURM_LOCALID", "0");
        for (int node = 0; node < 4; node++) {
            World world = World.of(with(uneven, "SLURM_NODEID", "" + node));
            assertEquals(4, world.nodes());
            assertEquals(node == 0 ? 2 : 1, world.localSize());
        }
        assertEquals(2, World.of(with(SLURM, "SLURM_STEP_TASKS_PER_NODE", null)).nodes(), "5 ranks, 3 per node");

        assertEquals(2, World.of(TORCHRUN).nodes(), "8 ranks, 4 on this node");
        assertEquals(3, World.of(with(TORCHRUN, "GROUP_WORLD_SIZE", "3")).nodes());
        assertEquals("GROUP_WORLD_SIZE must be from 1 to 8, not 9", error(with(TORCHRUN, "GROUP_WORLD_SIZE", "9")));
    }

    @Test
    void torchrunInsideSlurmTakesPrecedence() {
        var both = new HashMap<>(SLURM);
        both.putAll(TORCHRUN);
        assertEquals(World.of(TORCHRUN), World.of(both));
    }

    @Test
    void theFirstHostOfANodeListIsFound() {
        var first = Map.of(
                "a,b", "a", "n[1-3,7],m", "n1", "n[003,007]", "n003", "gpu-[08-09]-ib", "gpu-08-ib", "one", "one");
        var severalDimensions = Map.of(
                "rack[2-3]node[03,07]", "rack2node03", "r[1,2]n[4-5,9]-ib,other", "r1n4-ib", "a,n[1-2]m[3-4]", "a");
        severalDimensions.forEach((nodes, node) -> assertEquals(node, World.firstHost(nodes)));
        first.forEach((nodes, node) -> assertEquals(node, World.firstHost(nodes)));
    }

    @Test
    void missingOrInvalidVariablesAreNamed() {
        assertEquals("WORLD_SIZE is not set", error(with(TORCHRUN, "WORLD_SIZE", null)));
        assertEquals("MASTER_PORT is not set", error(with(TORCHRUN, "MASTER_PORT", " ")));
        assertEquals("RANK must be from 0 to 7, not 8", error(with(TORCHRUN, "RANK", "8")));
        assertEquals("RANK must be from 0 to 7, not -1", error(with(TORCHRUN, "RANK", "-1")));
        assertEquals("WORLD_SIZE must be at least 1, not 0", error(with(TORCHRUN, "WORLD_SIZE", "0")));
        assertEquals("SLURM_JOB_ID must be at least 0, not -1", error(with(SLURM, "SLURM_JOB_ID", "-1")));
        assertEquals("WORLD_SIZE must be a whole number, not 'two'", error(with(TORCHRUN, "WORLD_SIZE", "two")));
        assertEquals("MASTER_PORT must be from 1 to 65535, not 70000", error(with(TORCHRUN, "MASTER_PORT", "70000")));
        assertEquals("LOCAL_RANK must be from 0 to 3, not 4", error(with(TORCHRUN, "LOCAL_RANK", "4")));
        assertEquals("SLURM_PROCID must be from 0 to 4, not 5", error(with(SLURM, "SLURM_PROCID", "5")));
        assertEquals(
                "SLURM_STEP_TASKS_PER_NODE must be a list like 3,2 or 4(x2),1, not '3;2'",
                error(with(SLURM, "SLURM_STEP_TASKS_PER_NODE", "3;2")));
        assertEquals(
                "SLURM_NODEID must be below 2, the number of nodes in SLURM_STEP_TASKS_PER_NODE, not 2",
                error(with(SLURM, "SLURM_NODEID", "2")));
        assertEquals(
                List.of("neither RANK (torchrun) nor SLURM_PROCID (srun) is set"),
                List.of(error(Map.of()).split(":")[0]));
        assertEquals(
                "rank must be from 0 to 1, not 2",
                assertThrows(IllegalArgumentException.class, () -> World.local(2, 2, 29500))
                        .getMessage());
    }
}
