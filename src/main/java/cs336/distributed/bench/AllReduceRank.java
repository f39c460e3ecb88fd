package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Device;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Locale;

/**
 * The program that each rank of {@code cs336 allreduce} runs: it times all sizes of a plan in order and returns the
 * times. Sizes that are already stored are skipped. Rank 0 prints and stores each size before the next one begins.
 */
public final class AllReduceRank implements RankProgram<AllReducePlan, ArrayList<AllReduceTimes>> {
    private static final int MEGA = 6; // decimal places between bytes and MB

    @Override
    public ArrayList<AllReduceTimes> run(ProcessGroup group, AllReducePlan plan) throws IOException {
        int nodes = plan.nodes() > 0 ? plan.nodes() : group.world().nodes();
        MeasurementStore store = group.rank() == 0 && plan.storage() != null ? open(group, plan.storage()) : null;
        var open = new ArrayList<Long>();
        for (long bytes : plan.bytes()) {
            if (store == null || store.lacks(toCase(group, nodes, bytes))) {
                open.add(bytes);
            }
        }
        if (store != null) {
            store.reportStored(plan.bytes().size() - open.size(), plan.bytes().size());
        }
        var benchmark = new AllReduceBenchmark(group, plan);
        var measured = new ArrayList<AllReduceTimes>();
        for (long bytes : group.allGather(open).get(0)) {
            AllReduceTimes times = benchmark.run(bytes);
            measured.add(times);
            if (store != null) {
                Case c = toCase(group, nodes, bytes);
                store.put(c, times.samples());
                System.out.printf(
                        Locale.ROOT, "%s: %,.4g ms%n", c, times.summary().median());
            }
        }
        return measured;
    }

    private static Case toCase(ProcessGroup group, int nodes, long bytes) {
        BigDecimal megabytes = BigDecimal.valueOf(bytes, MEGA).stripTrailingZeros();
        return Case.measuredHere("java")
                .with("backend", group.backend())
                .with("on", group.device().isCuda() ? "cuda" : "cpu")
                .with("nodes", nodes)
                .with("processes", group.size())
                .with("megabytes", megabytes.toPlainString())
                .yields(Metric.ms("time"));
    }

    /** Opens rank 0's file and, on GPUs, records the links between them. */
    private static MeasurementStore open(ProcessGroup group, MeasurementFile storage) throws IOException {
        MeasurementStore store = MeasurementStore.of(storage, group.device(), Device.cudaCount());
        System.out.println("into " + store.path());
        if (group.device().isCuda()) {
            LinkTopology.record(Path.of(storage.folder()), store.provenance());
        }
        return store;
    }
}
