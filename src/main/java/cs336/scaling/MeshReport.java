package cs336.scaling;

import cs336.bench.AlignedText;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.io.PrintWriter;
import java.util.Locale;

/**
 * A report on one training step on a mesh: the memory of a device, the data that it sends, and the compute time at the
 * device's peak.
 *
 * @param model the model
 * @param state types of the training state
 * @param mesh axes of parallelism
 * @param microBatch tokens of a micro-batch on each data-parallel rank, see {@link Mesh#batchShards}
 * @param microBatches number of micro-batches in a step
 * @param device kind of device
 */
record MeshReport(
        ModelShape model, TrainingState state, Mesh mesh, Tokens microBatch, int microBatches, Accelerator device) {
    /** Prints the report. */
    void print(PrintWriter out) {
        var memory = new DeviceMemory(model, state, mesh, microBatch, microBatches);
        Tokens step = microBatch.times(microBatches).times(mesh.batchShards());
        var communication = new StepCommunication(model, state, mesh, microBatch, microBatches);
        out.printf(
                Locale.ROOT,
                "%s, %,d parameters, on %s: %,d devices, %,d tokens per step%n%n",
                model.name(),
                model.parameters(),
                mesh,
                mesh.devices(),
                step.count());
        out.println(AlignedText.of(memory.table()));
        boolean fits = memory.total().compareTo(device.memory()) <= 0;
        out.printf(
                "%nmemory: %s of %s on one %s: %s%n%n",
                memory.total(), device.memory(), device.name(), fits ? "fits" : "does not fit");
        out.println(AlignedText.of(communication.table()));
        Seconds computing = model.forwardBackward(microBatch.times(microBatches))
                .times(1.0 / ((double) mesh.tensor() * mesh.pipeline()))
                .at(device.peak());
        out.printf(
                "%ncompute time at the bf16 peak of %s: %s; time to send at %s: %s%n",
                device.peak(), computing, device.link(), communication.sent().over(device.link()));
        if (mesh.pipeline() > 1) {
            out.printf(Locale.ROOT, "pipeline bubble: %.0f %%%n", 100 * communication.bubble());
        }
    }
}
