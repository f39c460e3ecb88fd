package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * The program that each rank of {@code cs336 allreduce} runs: it times all sizes of a plan in order and returns the
 * times. Sizes that are already stored are skipped. Rank 0 prints and stores each size before the next one begins.
 */
public final class AllReduceRank implements RankProgram<AllReducePlan, ArrayList<AllReduceTimes>> {
    private static final String MEGABYTES = "megabytes";
    private static final int MEGA = 6; // decimal places between bytes and MB

    @Override
    public ArrayList<AllReduceTimes> run(ProcessGroup group, AllReducePlan plan) throws IOException {
        int nodes = plan.nodes() > 0 ? plan.nodes() : group.world().nodes();
        MeasurementStore store = group.rank() == 0 && plan.storage() != null ? open(group, plan.storage()) : null;
        List<Case> all = cases(plan, group.backend(), group.device().kind(), nodes, group.size());
        ArrayList<Case> open = store == null ? new ArrayList<>(all) : store.lacking(all);
        if (store != null) {
            store.reportStored(all.size() - open.size(), all.size());
        }
        var benchmark = new AllReduceBenchmark(group, plan);
        var measured = new ArrayList<AllReduceTimes>();
        open = group.allGather(open).get(0);
        for (int i = 0; i < open.size(); i++) {
            Case c = open.get(i);
            if (store != null) {
                MeasurementStore.reportStart(group, "all-reduce", open, i);
            }
            AllReduceTimes times = benchmark.run(
                    new BigDecimal(c.text(MEGABYTES)).movePointRight(MEGA).longValueExact());
            measured.add(times);
            if (store != null) {
                store.put(c, times.samples());
                System.out.printf(
                        Locale.ROOT, "%s: %,.4g ms%n", c, times.summary().median());
            }
        }
        return measured;
    }

    /**
     * Returns the case of each size of a plan.
     *
     * @param nodes number of machines, real or emulated
     * @param processes number of ranks
     */
    static List<Case> cases(AllReducePlan plan, CollectiveBackend backend, DeviceKind kind, int nodes, int processes) {
        return plan.bytes().stream()
                .map(bytes -> BigDecimal.valueOf(bytes, MEGA).stripTrailingZeros())
                .map(megabytes -> Case.measuredHere("java")
                        .with("backend", backend)
                        .with("on", kind)
                        .with("nodes", nodes)
                        .with("processes", processes)
                        .with(MEGABYTES, megabytes.toPlainString())
                        .yields(Metric.ms("time")))
                .toList();
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
