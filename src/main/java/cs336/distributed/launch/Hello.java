package cs336.distributed.launch;

import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.distributed.collectives.World;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.net.InetAddress;
import java.time.Duration;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The hello world of distributed programs: each rank prints its position and all-reduces a tensor filled with
 * {@code rank + 1}. With a number of seconds as argument it repeats the all-reduce for that long, which leaves time to
 * disturb it, for example by pulling a network cable.
 *
 * <pre>{@code
 * ./cs336 launch --processes 4 cs336.distributed.launch.Hello
 * sbatch --nodes=2 --ntasks-per-node=2 slurm/run.sbatch launch Hello 60
 * }</pre>
 */
public final class Hello implements RankProgram<String[], Integer> {
    private static final int VALUES = 1_000_000;

    /** Creates the program; the launcher calls this. */
    public Hello() {}

    /**
     * Runs on one rank.
     *
     * @param argument empty, or the number of seconds
     * @return number of all-reduces
     * @throws IllegalStateException if an all-reduce gave a wrong sum
     */
    @Override
    public Integer run(ProcessGroup group, String[] argument) throws Exception {
        long nanos = duration(argument).toNanos();
        World world = group.world();
        allReduce(group, false);
        System.out.printf(
                "hello from rank %d of %d, local rank %d of %d on %s: the sum is right%n",
                world.rank(),
                world.size(),
                world.localRank(),
                world.localSize(),
                InetAddress.getLocalHost().getHostName());
        long begin = System.nanoTime(); // all ranks have started, and the name server has answered
        int rounds = 1;
        if (nanos == 0) {
            return rounds;
        }
        while (!allReduce(group, System.nanoTime() - begin > nanos)) {
            rounds++;
        }
        rounds++;
        System.out.printf("rank %d: %,d all-reduces, each with the right sum%n", world.rank(), rounds);
        return rounds;
    }

    private static Duration duration(String[] argument) {
        if (argument.length == 0) {
            return Duration.ZERO;
        }
        if (argument.length > 1 || !argument[0].matches("\\d{1,6}")) {
            throw new IllegalArgumentException(
                    "argument must be a number of seconds or absent, not '" + String.join(" ", argument) + "'");
        }
        return Duration.ofSeconds(Long.parseLong(argument[0]));
    }

    /**
     * Runs one all-reduce. Element 0 carries the vote to stop.
     *
     * @param stop whether this rank votes to stop
     * @return whether any rank voted to stop
     */
    private static boolean allReduce(ProcessGroup group, boolean stop) {
        try (var scope = MemoryScope.open()) {
            int n = group.size();
            Tensor values = torch.full(
                    new long[] {VALUES},
                    new Scalar(group.rank() + 1.0),
                    group.device().options(DType.FLOAT32));
            values.get(0).fill_(new Scalar(stop ? 1.0 : 0.0));
            group.allReduce(values, Reduction.SUM);
            double expected = n * (n + 1) / 2.0;
            double least = values.narrow(0, 1, VALUES - 1).min().item_double();
            double most = values.narrow(0, 1, VALUES - 1).max().item_double();
            if (least != expected || most != expected) {
                throw new IllegalStateException(
                        "rank " + group.rank() + " got sums from " + least + " to " + most + ", not " + expected);
            }
            return values.get(0).item_double() > 0;
        }
    }
}
