package cs336.distributed.collectives;

import cs336.units.IntegerMath;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The position of this process among all ranks.
 *
 * @param rank index of this process, from 0
 * @param size number of processes (the world size)
 * @param localRank index of this process on its machine, from 0
 * @param localSize number of processes on its machine
 * @param nodes number of machines
 * @param masterAddress name or address of the machine of rank 0
 * @param masterPort TCP port at which rank 0 hosts the store for the rendezvous
 */
public record World(int rank, int size, int localRank, int localSize, int nodes, String masterAddress, int masterPort) {
    /** Environment variable with the number of restarts. */
    public static final String RESTARTS = "TORCHELASTIC_RESTART_COUNT";

    private static final int LARGEST_PORT = 65_535;

    /** First port of the range from which a Slurm job gets its master port, unless MASTER_PORT is set. */
    private static final int FIRST_SLURM_PORT = 20_000;

    private static final int SLURM_PORTS = 10_000;

    private static final String TASKS_PER_NODE = "SLURM_STEP_TASKS_PER_NODE";

    /** @throws IllegalArgumentException if a number is out of range, or {@code masterAddress} is blank */
    public World {
        require("world size", size, 1, Integer.MAX_VALUE);
        require("rank", rank, 0, size - 1);
        require("local world size", localSize, 1, size);
        require("local rank", localRank, 0, localSize - 1);
        require("number of nodes", nodes, 1, size);
        require("master port", masterPort, 1, LARGEST_PORT);
        if (masterAddress.isBlank()) {
            throw new IllegalArgumentException("master address must not be empty");
        }
    }

    /** Returns the position of a process whose group runs on this machine only. */
    public static World local(int rank, int size, int masterPort) {
        return new World(rank, size, rank, size, 1, "127.0.0.1", masterPort);
    }

    /**
     * Reads the environment variables of {@code torchrun} (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
     * GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), or else those of Slurm's {@code srun} (SLURM_PROCID, SLURM_NTASKS,
     * SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE).
     *
     * <p>Under Slurm the master is the first node of the job step, and the port is derived from the job id, unless
     * MASTER_ADDR and MASTER_PORT are set. SLURM_NTASKS_PER_NODE is read only if SLURM_STEP_TASKS_PER_NODE is missing:
     * it holds the requested number, even on a node with fewer tasks.
     *
     * <p>If GROUP_WORLD_SIZE or SLURM_STEP_TASKS_PER_NODE is missing, every node is assumed to have as many ranks as
     * this one. A missing LOCAL_WORLD_SIZE counts as WORLD_SIZE.
     *
     * @throws IllegalArgumentException if a variable is missing, not a number, or out of range; the message names it
     */
    public static World fromEnvironment() {
        return of(System.getenv());
    }

    /**
     * Returns the number of times that the ranks were restarted after a failure, as {@code torchrun} and {@code cs336
     * launch --max-restarts} do: TORCHELASTIC_RESTART_COUNT, or 0 if that is not set.
     *
     * @throws IllegalArgumentException if the variable is not a number from 0
     */
    public static int restarts() {
        var variables = new Variables(System.getenv());
        return variables.has(RESTARTS) ? variables.number(RESTARTS, 0, Integer.MAX_VALUE) : 0;
    }

    static World of(Map<String, String> environment) {
        var variables = new Variables(environment);
        if (variables.has("RANK")) {
            return ofTorchrun(variables);
        }
        if (variables.has("SLURM_PROCID")) {
            return ofSlurm(variables);
        }
        throw new IllegalArgumentException(
                "neither RANK (torchrun) nor SLURM_PROCID (srun) is set: start ranks with srun, with torchrun,"
                        + " or with --processes on this machine");
    }

    private static World ofTorchrun(Variables variables) {
        int size = variables.number("WORLD_SIZE", 1, Integer.MAX_VALUE);
        int rank = variables.number("RANK", 0, size - 1);
        int localSize = variables.has("LOCAL_WORLD_SIZE") ? variables.number("LOCAL_WORLD_SIZE", 1, size) : size;
        int localRank = variables.number("LOCAL_RANK", 0, localSize - 1);
        return new World(
                rank,
                size,
                localRank,
                localSize,
                variables.has("GROUP_WORLD_SIZE")
                        ? variables.number("GROUP_WORLD_SIZE", 1, size)
                        : IntegerMath.ceilDiv(size, localSize),
                variables.text("MASTER_ADDR"),
                variables.number("MASTER_PORT", 1, LARGEST_PORT));
    }

    private static World ofSlurm(Variables variables) {
        int size = variables.number("SLURM_NTASKS", 1, Integer.MAX_VALUE);
        int rank = variables.number("SLURM_PROCID", 0, size - 1);
        int localSize;
        int nodes;
        if (variables.has(TASKS_PER_NODE)) {
            List<NodesWithTasks> all = tasksPerNode(variables.text(TASKS_PER_NODE));
            nodes = all.stream().mapToInt(NodesWithTasks::nodes).sum();
            localSize = tasksOfNode(all, variables.number("SLURM_NODEID", 0, Integer.MAX_VALUE), nodes);
        } else {
            String requested = "SLURM_NTASKS_PER_NODE";
            localSize =
                    variables.has(requested) ? Math.min(size, variables.number(requested, 1, Integer.MAX_VALUE)) : size;
            nodes = IntegerMath.ceilDiv(size, localSize);
        }
        int localRank = variables.number("SLURM_LOCALID", 0, localSize - 1);
        return new World(rank, size, localRank, localSize, nodes, slurmMaster(variables), slurmPort(variables));
    }

    /** Consecutive nodes with the same number of tasks. */
    private record NodesWithTasks(int nodes, int tasks) {}

    /** Reads SLURM_STEP_TASKS_PER_NODE: {@code 3,2}, or {@code 4(x2),1} for 4, 4 and 1. */
    private static List<NodesWithTasks> tasksPerNode(String text) {
        return Arrays.stream(text.split(",", -1))
                .map(part -> {
                    Matcher m =
                            Pattern.compile("(\\d{1,9})(?:\\(x(\\d{1,9})\\))?").matcher(part);
                    if (!m.matches()) {
                        throw new IllegalArgumentException(
                                TASKS_PER_NODE + " must be a list like 3,2 or 4(x2),1, not '" + text + "'");
                    }
                    return new NodesWithTasks(
                            m.group(2) == null ? 1 : Integer.parseInt(m.group(2)), Integer.parseInt(m.group(1)));
                })
                .toList();
    }

    private static int tasksOfNode(List<NodesWithTasks> all, int node, int nodes) {
        int before = 0;
        for (NodesWithTasks some : all) {
            before += some.nodes;
            if (node < before) {
                return some.tasks;
            }
        }
        throw new IllegalArgumentException(
                "SLURM_NODEID must be below " + nodes + ", the number of nodes in " + TASKS_PER_NODE + ", not " + node);
    }

    private static String slurmMaster(Variables variables) {
        if (variables.has("MASTER_ADDR")) {
            return variables.text("MASTER_ADDR");
        }
        String nodes =
                variables.text(variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST");
        return firstHost(nodes);
    }

    /** Returns the first host of {@code nodea,nodeb}, of {@code node[03-07,12]} or of {@code rack[2-3]node[03-07]}. */
    static String firstHost(String nodes) {
        Matcher first = Pattern.compile("[^,\\[\\]](?:[^,\\[]|\\[[^\\]]*\\])*").matcher(nodes);
        if (!first.lookingAt()) {
            throw new IllegalArgumentException("Slurm's list of nodes must name a node, not '" + nodes + "'");
        }
        return first.group().replaceAll("\\[(\\w*)[^\\]]*\\]", "$1");
    }

    private static int slurmPort(Variables variables) {
        if (variables.has("MASTER_PORT")) {
            return variables.number("MASTER_PORT", 1, LARGEST_PORT);
        }
        long job = variables.number("SLURM_JOB_ID", 0, Long.MAX_VALUE); // above 2³¹ in federated clusters
        return FIRST_SLURM_PORT + (int) (job % SLURM_PORTS);
    }

    private static void require(String name, long value, long least, long most) {
        if (value < least || value > most) {
            throw new IllegalArgumentException(name + " must be " + range(least, most) + ", not " + value);
        }
    }

    private static String range(long least, long most) {
        return most >= Integer.MAX_VALUE ? "at least " + least : "from " + least + " to " + most;
    }

    /** Environment variables; errors name the variable. */
    private record Variables(Map<String, String> all) {
        boolean has(String name) {
            return !all.getOrDefault(name, "").isBlank();
        }

        String text(String name) {
            if (!has(name)) {
                throw new IllegalArgumentException(name + " is not set");
            }
            return all.get(name).strip();
        }

        int number(String name, int least, int most) {
            return (int) number(name, least, (long) most);
        }

        long number(String name, long least, long most) {
            String text = text(name);
            if (!text.matches("-?\\d{1,18}")) {
                throw new IllegalArgumentException(name + " must be a whole number, not '" + text + "'");
            }
            long value = Long.parseLong(text);
            require(name, value, least, most);
            return value;
        }
    }
}
