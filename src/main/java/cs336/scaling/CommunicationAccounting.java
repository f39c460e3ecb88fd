package cs336.scaling;

import cs336.units.Bytes;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;

/**
 * Answers to the problem {@code communication_accounting} for the model {@link ModelShape#XXL}.
 *
 * @param batches batch sizes in tokens to answer for; the problem does not state any
 */
public record CommunicationAccounting(List<Tokens> batches) {
    /** Batches of one token, half a sequence of 4,096 tokens, a sequence, and two. */
    public static final CommunicationAccounting STANDARD =
            new CommunicationAccounting(List.of(new Tokens(1), new Tokens(2048), new Tokens(4096), new Tokens(8192)));

    private static final ModelShape MODEL = ModelShape.XXL;
    private static final TrainingState STATE = TrainingState.MIXED;
    private static final int D_MODEL = 16_384;
    private static final int D_FF = 53_248;
    private static final int FSDP = 16;
    private static final int FSDP_AXES = 2;
    private static final int TENSOR = 4;
    private static final int TENSOR_AXES = 1;

    /**
     * One number of an answer.
     *
     * @param part part of the problem: {@code a} to {@code d}
     * @param tokens tokens of the batch; 0 if the number does not depend on the batch, or is the batch
     * @param fsdp X; 0 without a mesh
     * @param tensor Y; 0 without a mesh
     * @param name name of the number
     * @param value the number in its unit
     * @param unit {@code bytes}, {@code tokens} …; empty for a pure number
     */
    public record AccountingAnswer(
            String part, long tokens, int fsdp, int tensor, String name, double value, String unit) {}

    public CommunicationAccounting {
        batches = List.copyOf(batches);
    }

    /** Returns the mesh of (c): X = 16 on two axes of the torus, Y = 4 on the third. */
    public static ComputeBound mesh() {
        return mesh(FSDP, TENSOR);
    }

    private static ComputeBound mesh(int fsdp, int tensor) {
        return new ComputeBound(D_MODEL, D_FF, Accelerator.TPU_V5P, fsdp, FSDP_AXES, tensor, TENSOR_AXES);
    }

    /** Returns the memory of (b), with half of the activations sharded. */
    public static FsdpMemory memory(Tokens tokens) {
        return new FsdpMemory(MODEL, STATE, tokens, 0.5);
    }

    /** Returns all numbers of all parts. */
    public List<AccountingAnswer> answers() {
        List<AccountingAnswer> answers = new ArrayList<>();
        memoryOfOneDevice(answers);
        devices(answers);
        batch(answers);
        smallerBatch(answers);
        return answers;
    }

    private void memoryOfOneDevice(List<AccountingAnswer> answers) {
        long parameters = MODEL.parameters();
        long gpu = Accelerator.H100.memory().count();
        answers.add(answer("a", 0, "parameters", parameters, ""));
        for (var tensor : STATE.tensors(parameters)) {
            answers.add(answer("a", 0, tensor.name().replaceAll("[ :]+", "-"), tensor.bytes(), "bytes"));
        }
        Bytes state = STATE.bytes(parameters);
        answers.add(answer("a", 0, "state", state.count(), "bytes"));
        answers.add(answer("a", 0, "gpus", Math.ceil((double) state.count() / gpu), ""));
        answers.add(answer(
                "a",
                0,
                "bf16-weights",
                Bytes.of(parameters, STATE.sent().bytes()).count(),
                "bytes"));
        for (Tokens tokens : batches) {
            Bytes kept = MODEL.kept(tokens);
            answers.add(answer("a", tokens.count(), "kept-for-backward", kept.count(), "bytes"));
            double all = state.plus(kept).count();
            answers.add(answer("a", tokens.count(), "gpus", Math.ceil(all / gpu), ""));
        }
    }

    private void devices(List<AccountingAnswer> answers) {
        Bytes tpu = Accelerator.TPU_V5P.memory();
        answers.add(answer(
                "b", 0, "largest-batch", memory(batches.get(0)).limit(tpu).count(), "tokens"));
        for (Tokens tokens : batches) {
            FsdpMemory memory = memory(tokens);
            long n = memory.devicesToFit(tpu);
            answers.add(answer("b", tokens.count(), "devices", n, ""));
            answers.add(
                    answer("b", tokens.count(), "memory", memory.perDevice(n).count(), "bytes"));
            answers.add(
                    answer("b", tokens.count(), "whole-on-each", memory.whole().count(), "bytes"));
            long all = new FsdpMemory(MODEL, STATE, tokens, 1).devicesToFit(tpu);
            answers.add(answer("b", tokens.count(), "devices-all-split", all, ""));
        }
    }

    private static void batch(List<AccountingAnswer> answers) {
        ComputeBound mesh = mesh();
        answers.add(answer("c", mesh, "intensity", mesh.intensity(), ""));
        answers.add(answer("c", mesh, "widest-tensor", mesh.widestTensor(), ""));
        batches(answers, "c", mesh, "side-by-side", mesh.batchConcurrent());
        batches(answers, "c", mesh, "in-turn", mesh.batchSequential());
        batches(answers, "c", mesh, "best-mesh-side-by-side", mesh.batchOfBestMeshConcurrent());
        batches(answers, "c", mesh, "best-mesh-in-turn", mesh.batchOfBestMeshSequential());
        answers.add(answer("c", mesh, "best-x", mesh.bestFsdp(mesh.batchOfBestMeshConcurrent()), ""));
        Tokens batch = mesh.batchConcurrent();
        answers.add(answer("c", mesh, "computing", mesh.computing(batch).ms(), "ms"));
        answers.add(
                answer("c", mesh, "gathering-weights", mesh.gatheringWeights().ms(), "ms"));
        answers.add(answer(
                "c", mesh, "moving-activations", mesh.movingActivations(batch).ms(), "ms"));
    }

    private static void batches(
            List<AccountingAnswer> answers, String part, ComputeBound mesh, String how, Tokens batch) {
        answers.add(answer(part, mesh, "batch-" + how, batch.count(), "tokens"));
        answers.add(answer(part, mesh, "batch-a-chip-" + how, (double) batch.count() / mesh.chips(), "tokens"));
        answers.add(answer(part, mesh, "batch-a-shard-" + how, (double) batch.count() / mesh.fsdp(), "tokens"));
    }

    /** Adds the answers to (d): other meshes of the same number of chips. */
    private static void smallerBatch(List<AccountingAnswer> answers) {
        for (int tensor = 1; tensor <= mesh().widestTensor(); tensor *= 2) {
            ComputeBound mesh = mesh((int) (mesh().chips() / tensor), tensor);
            batches(answers, "d", mesh, "side-by-side", mesh.batchConcurrent());
            batches(answers, "d", mesh, "in-turn", mesh.batchSequential());
        }
    }

    private static AccountingAnswer answer(String part, long tokens, String name, double value, String unit) {
        return new AccountingAnswer(part, tokens, 0, 0, name, value, unit);
    }

    private static AccountingAnswer answer(String part, ComputeBound mesh, String name, double value, String unit) {
        return new AccountingAnswer(part, 0, mesh.fsdp(), mesh.tensor(), name, value, unit);
    }
}
