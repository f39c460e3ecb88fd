package cs336.scaling;

import static cs336.units.UnitFactors.MB;

import cs336.bench.ArgumentCheck;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.units.Bytes;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.Table;

/**
 * The bytes that one device sends in a training step, by axis of parallelism.
 *
 * @param model the model
 * @param state types of the training state; weights, gradients and activations are sent in {@link TrainingState#sent}
 * @param mesh axes of parallelism
 * @param tokens tokens of a micro-batch on each data-parallel rank, see {@link Mesh#batchShards}
 * @param microBatches number of micro-batches in a step. Data parallelism and ZeRO stage 1 communicate once per step;
 *     stage 2, which keeps only a shard of the sum of gradients, reduces those of each micro-batch. All other transfers
 *     are per micro-batch
 */
public record StepCommunication(ModelShape model, TrainingState state, Mesh mesh, Tokens tokens, int microBatches) {
    /**
     * @throws IllegalArgumentException if there is no micro-batch, or the mesh has more pipeline stages than the model
     *     has blocks
     */
    public StepCommunication {
        DeviceMemory.requireBlocks(model, mesh);
        ArgumentCheck.atLeast("microBatches", 1, microBatches);
    }

    /**
     * All transfers of one kind in a step.
     *
     * @param axis axis of the mesh
     * @param what kind of tensor is sent
     * @param how name of the collective; empty for point-to-point transfers
     * @param ranks number of devices that take part
     * @param times number of transfers in a step
     * @param payload size of the whole tensor of one transfer
     * @param sent bytes that this device sends in all transfers
     */
    public record StepTraffic(String axis, String what, String how, int ranks, long times, Bytes payload, Bytes sent) {}

    /** Returns all kinds of transfers of a step. */
    public List<StepTraffic> traffic() {
        var traffic = new ArrayList<StepTraffic>();
        Bytes stage = Bytes.of(
                        DeviceMemory.parametersOfStage(model, mesh),
                        state.sent().bytes())
                .sharedBy(mesh.tensor());
        boolean fsdp = mesh.stage().splitsWeights();
        if (mesh.shards() > 1) {
            long n = fsdp ? microBatches : 1;
            String axis = mesh.stage().toString();
            traffic.add(collective(axis, "weights", Collective.ALL_GATHER, mesh.shards(), fsdp ? 2 * n : n, stage));
            long reduced = mesh.stage().splitsGradients() ? microBatches : 1;
            traffic.add(collective(axis, "gradients", Collective.REDUCE_SCATTER, mesh.shards(), reduced, stage));
        }
        if (mesh.data() > 1) {
            Bytes shard = stage.sharedBy(mesh.shards());
            traffic.add(collective("DP", "gradients", Collective.ALL_REDUCE, mesh.data(), 1, shard));
        }
        Bytes stream = Bytes.of(
                Math.multiplyExact(tokens.count(), model.dModel()), state.sent().bytes());
        String activations = "activations and their gradients";
        if (mesh.tensor() > 1) {
            long pairs = model.pairs() * DeviceMemory.blocksOfStage(model, mesh) * microBatches;
            traffic.add(collective("TP", activations, Collective.ALL_GATHER, mesh.tensor(), 3 * pairs, stream));
            traffic.add(collective("TP", activations, Collective.REDUCE_SCATTER, mesh.tensor(), 2 * pairs, stream));
        }
        if (mesh.pipeline() > 1) {
            Bytes shard = stream.sharedBy(mesh.tensor());
            // The first stage sends only activations, the last one only gradients, the others both.
            long times = (mesh.pipeline() == 2 ? 1L : 2L) * microBatches;
            traffic.add(new StepTraffic("PP", activations, "", 2, times, shard, shard.times(times)));
        }
        return traffic;
    }

    private static StepTraffic collective(
            String axis, String what, Collective how, int ranks, long times, Bytes payload) {
        Bytes sent = how.sent(payload, ranks).times(times);
        return new StepTraffic(axis, what, how.toString(), ranks, times, payload, sent);
    }

    /** Returns all bytes that one device sends. */
    public Bytes sent() {
        return traffic().stream().map(StepTraffic::sent).reduce(Bytes.NONE, Bytes::plus);
    }

    /** Returns the fraction of a step in which the devices of a pipeline are idle: (p−1)/(m+p−1). */
    public double bubble() {
        return (mesh.pipeline() - 1.0) / ((double) microBatches + mesh.pipeline() - 1);
    }

    private record TrafficRow(
            String axis,
            @Header("tensors") String what,
            @Header("collective") String how,
            Integer ranks,
            @Header("times per step") Long times,
            @Header("payload (MB)") Double payload,
            @Header("sent (GB)") double sent) {}

    /** Returns a table with a row for each kind of transfer and a last row with the sum. */
    public Table table() {
        List<TrafficRow> rows = new ArrayList<>();
        for (StepTraffic t : traffic()) {
            rows.add(new TrafficRow(t.axis, t.what, t.how, t.ranks, t.times, t.payload.count() / MB, t.sent.gb()));
        }
        rows.add(new TrafficRow("sum", "", "", null, null, null, sent().gb()));
        return Tables.of(TrafficRow.class, rows).setName(model.name() + " on " + mesh + ", sent by a device in a step");
    }
}
