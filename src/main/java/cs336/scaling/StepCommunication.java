package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bytes;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * What one device sends in a training step, by the kind of parallelism that asks for it.
 *
 * @param model the model
 * @param state its copies, and the type in which weights, gradients and activations are sent
 * @param mesh how the work is split
 * @param tokens of one micro-batch, of each of the mesh's groups that take sequences of their own
 * @param microBatches of a step; gradients of data parallelism travel once a step, all else with each of them
 */
public record StepCommunication(ModelShape model, TrainingState state, Mesh mesh, Tokens tokens, int microBatches) {
    /**
     * @throws IllegalArgumentException if there is no micro-batch, or the mesh has more stages than the model has
     *     blocks
     */
    public StepCommunication {
        DeviceMemory.requireBlocks(model, mesh);
        ArgumentCheck.atLeast("microBatches", 1, microBatches);
    }

    /**
     * One kind of message.
     *
     * @param axis of the mesh along which it goes
     * @param what is in it
     * @param how the collective; empty for what is sent from one device to the next
     * @param ranks that take part
     * @param times a step
     * @param payload of one time: the whole tensor
     * @param sent by this device, all times together
     */
    public record StepTraffic(String axis, String what, String how, int ranks, long times, Bytes payload, Bytes sent) {}

    /** All messages of a step. */
    public List<StepTraffic> traffic() {
        var traffic = new ArrayList<StepTraffic>();
        Bytes model = Bytes.of(
                        DeviceMemory.parametersOfStage(this.model, mesh),
                        state.sent().bytes())
                .sharedBy(mesh.tensor());
        boolean fully = mesh.stage().splitsWeights();
        if (mesh.shards() > 1) {
            long n = fully ? microBatches : 1;
            String axis = mesh.stage().toString();
            traffic.add(collective(axis, "weights", Collective.ALL_GATHER, mesh.shards(), fully ? 2 * n : n, model));
            traffic.add(collective(axis, "gradients", Collective.REDUCE_SCATTER, mesh.shards(), n, model));
        }
        if (mesh.data() > 1) {
            Bytes part = model.sharedBy(mesh.shards());
            traffic.add(collective("DP", "gradients", Collective.ALL_REDUCE, mesh.data(), 1, part));
        }
        if (mesh.tensor() > 1) {
            Bytes stream = Bytes.of(
                    Math.multiplyExact(tokens.count(), this.model.dModel()),
                    state.sent().bytes());
            long pairs = this.model.pairs() * DeviceMemory.blocksOfStage(this.model, mesh) * microBatches;
            String what = "activations and their gradients";
            traffic.add(collective("TP", what, Collective.ALL_GATHER, mesh.tensor(), 3 * pairs, stream));
            traffic.add(collective("TP", what, Collective.REDUCE_SCATTER, mesh.tensor(), 2 * pairs, stream));
        }
        if (mesh.pipeline() > 1) {
            Bytes part = Bytes.of(
                            Math.multiplyExact(tokens.count(), this.model.dModel()),
                            state.sent().bytes())
                    .sharedBy(mesh.tensor());
            // Of two stages the first sends activations alone, the last one gradients alone; those between them send
            // both.
            long times = (mesh.pipeline() == 2 ? 1L : 2L) * microBatches;
            traffic.add(
                    new StepTraffic("PP", "activations and their gradients", "", 2, times, part, part.times(times)));
        }
        return traffic;
    }

    private static StepTraffic collective(
            String axis, String what, Collective how, int ranks, long times, Bytes payload) {
        return new StepTraffic(
                axis,
                what,
                how.toString(),
                ranks,
                times,
                payload,
                how.sent(payload, ranks).times(times));
    }

    /** All that one device sends. */
    public Bytes sent() {
        return traffic().stream().map(StepTraffic::sent).reduce(Bytes.NONE, Bytes::plus);
    }

    /** The share of a step in which a pipeline's devices have nothing to do: (p−1)/(m+p−1). */
    public double bubble() {
        return (mesh.pipeline() - 1.0) / (microBatches + mesh.pipeline() - 1.0);
    }

    /** A row for each kind of message; a last row with the sum. */
    public Table table() {
        Table table = Table.create(
                model.name() + " on " + mesh + ", sent by a device in a step",
                StringColumn.create("axis"),
                StringColumn.create("what"),
                StringColumn.create("how"),
                IntColumn.create("ranks"),
                LongColumn.create("times"),
                DoubleColumn.create("payload (MB)"),
                DoubleColumn.create("sent (GB)"));
        for (StepTraffic t : traffic()) {
            Row row = table.appendRow();
            row.setString("axis", t.axis);
            row.setString("what", t.what);
            row.setString("how", t.how);
            row.setInt("ranks", t.ranks);
            row.setLong("times", t.times);
            row.setDouble("payload (MB)", t.payload.count() / 1e6);
            row.setDouble("sent (GB)", t.sent.gb());
        }
        Row row = table.appendRow();
        row.setString("axis", "sum");
        row.setString("what", "");
        row.setString("how", "");
        row.setDouble("sent (GB)", sent().gb());
        return table;
    }
}
