package cs336.scaling;

import static cs336.scaling.AccountingQuantity.ACCUMULATED_GRADIENTS;
import static cs336.scaling.AccountingQuantity.BATCH_CONCURRENT;
import static cs336.scaling.AccountingQuantity.BATCH_PER_CHIP_CONCURRENT;
import static cs336.scaling.AccountingQuantity.BATCH_PER_CHIP_SEQUENTIAL;
import static cs336.scaling.AccountingQuantity.BATCH_PER_SHARD_CONCURRENT;
import static cs336.scaling.AccountingQuantity.BATCH_PER_SHARD_SEQUENTIAL;
import static cs336.scaling.AccountingQuantity.BATCH_SEQUENTIAL;
import static cs336.scaling.AccountingQuantity.BEST_FSDP;
import static cs336.scaling.AccountingQuantity.BEST_MESH_BATCH_CONCURRENT;
import static cs336.scaling.AccountingQuantity.BEST_MESH_BATCH_PER_CHIP_CONCURRENT;
import static cs336.scaling.AccountingQuantity.BEST_MESH_BATCH_PER_CHIP_SEQUENTIAL;
import static cs336.scaling.AccountingQuantity.BEST_MESH_BATCH_PER_SHARD_CONCURRENT;
import static cs336.scaling.AccountingQuantity.BEST_MESH_BATCH_PER_SHARD_SEQUENTIAL;
import static cs336.scaling.AccountingQuantity.BEST_MESH_BATCH_SEQUENTIAL;
import static cs336.scaling.AccountingQuantity.BF16_WEIGHTS;
import static cs336.scaling.AccountingQuantity.COMPUTING;
import static cs336.scaling.AccountingQuantity.DEVICES;
import static cs336.scaling.AccountingQuantity.DEVICES_ALL_SPLIT;
import static cs336.scaling.AccountingQuantity.FIRST_MOMENT;
import static cs336.scaling.AccountingQuantity.GATHERING_WEIGHTS;
import static cs336.scaling.AccountingQuantity.GPUS;
import static cs336.scaling.AccountingQuantity.INTENSITY;
import static cs336.scaling.AccountingQuantity.KEPT_FOR_BACKWARD;
import static cs336.scaling.AccountingQuantity.LARGEST_BATCH;
import static cs336.scaling.AccountingQuantity.MASTER_WEIGHTS;
import static cs336.scaling.AccountingQuantity.MEMORY;
import static cs336.scaling.AccountingQuantity.MOVING_ACTIVATIONS;
import static cs336.scaling.AccountingQuantity.PARAMETERS;
import static cs336.scaling.AccountingQuantity.SECOND_MOMENT;
import static cs336.scaling.AccountingQuantity.WHOLE_ON_EACH;
import static cs336.scaling.AccountingQuantity.WIDEST_TENSOR;

import cs336.scaling.memory.TensorMemory;
import cs336.units.Bytes;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

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

    /** The quantities of the tensors of {@link TrainingState#tensors}, in their order. */
    private static final List<AccountingQuantity> STATE_TENSORS =
            List.of(MASTER_WEIGHTS, ACCUMULATED_GRADIENTS, FIRST_MOMENT, SECOND_MOMENT);

    private static final List<AccountingQuantity> CONCURRENT =
            List.of(BATCH_CONCURRENT, BATCH_PER_CHIP_CONCURRENT, BATCH_PER_SHARD_CONCURRENT);
    private static final List<AccountingQuantity> SEQUENTIAL =
            List.of(BATCH_SEQUENTIAL, BATCH_PER_CHIP_SEQUENTIAL, BATCH_PER_SHARD_SEQUENTIAL);
    private static final List<AccountingQuantity> BEST_MESH_CONCURRENT = List.of(
            BEST_MESH_BATCH_CONCURRENT, BEST_MESH_BATCH_PER_CHIP_CONCURRENT, BEST_MESH_BATCH_PER_SHARD_CONCURRENT);
    private static final List<AccountingQuantity> BEST_MESH_SEQUENTIAL = List.of(
            BEST_MESH_BATCH_SEQUENTIAL, BEST_MESH_BATCH_PER_CHIP_SEQUENTIAL, BEST_MESH_BATCH_PER_SHARD_SEQUENTIAL);

    /**
     * One number of an answer.
     *
     * @param part part of the problem: {@code a} to {@code d}
     * @param tokens tokens of the batch; 0 if the number does not depend on the batch, or is the batch
     * @param fsdp X, the number of FSDP devices; 0 without a mesh
     * @param tensor Y, the number of tensor-parallel devices; 0 without a mesh
     * @param quantity meaning of the number
     * @param value the number in the quantity's unit
     */
    public record AccountingAnswer(
            String part, long tokens, int fsdp, int tensor, AccountingQuantity quantity, double value) {}

    public CommunicationAccounting {
        Objects.requireNonNull(batches, "batches must not be null");
        batches = List.copyOf(batches);
        if (batches.isEmpty()) {
            throw new IllegalArgumentException("batches must contain at least one size");
        }
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

    /**
     * Returns a number that depends neither on a batch nor on a mesh.
     *
     * @throws IllegalArgumentException if no answer has it
     */
    public double value(AccountingQuantity quantity) {
        Objects.requireNonNull(quantity, "quantity must not be null");
        return value(quantity, 0, 0, 0);
    }

    /**
     * Returns a number for a batch.
     *
     * @throws IllegalArgumentException if no answer has it
     */
    public double value(AccountingQuantity quantity, Tokens batch) {
        Objects.requireNonNull(quantity, "quantity must not be null");
        return value(quantity, batch.count(), 0, 0);
    }

    /**
     * Returns a number for X FSDP devices and Y tensor-parallel ones.
     *
     * @throws IllegalArgumentException if no answer has it
     */
    public double value(AccountingQuantity quantity, int fsdp, int tensor) {
        Objects.requireNonNull(quantity, "quantity must not be null");
        return value(quantity, 0, fsdp, tensor);
    }

    private double value(AccountingQuantity quantity, long tokens, int fsdp, int tensor) {
        return answers().stream()
                .filter(answer -> answer.quantity == quantity && answer.tokens == tokens)
                .filter(answer -> answer.fsdp == fsdp && answer.tensor == tensor)
                .mapToDouble(AccountingAnswer::value)
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no answer has " + quantity + " for " + tokens
                        + " tokens, " + fsdp + " FSDP devices and " + tensor + " tensor-parallel devices"));
    }

    private void memoryOfOneDevice(List<AccountingAnswer> answers) {
        long parameters = MODEL.parameters();
        long gpu = Accelerator.H100.memory().count();
        answers.add(answer("a", 0, PARAMETERS, parameters));
        List<TensorMemory> tensors = STATE.tensors(parameters);
        for (int i = 0; i < tensors.size(); i++) {
            answers.add(answer("a", 0, STATE_TENSORS.get(i), tensors.get(i).bytes()));
        }
        Bytes state = STATE.bytes(parameters);
        answers.add(answer("a", 0, AccountingQuantity.STATE, state.count()));
        answers.add(answer("a", 0, GPUS, Math.ceil((double) state.count() / gpu)));
        answers.add(answer(
                "a", 0, BF16_WEIGHTS, Bytes.of(parameters, STATE.sent().bytes()).count()));
        for (Tokens tokens : batches) {
            Bytes kept = MODEL.kept(tokens);
            answers.add(answer("a", tokens.count(), KEPT_FOR_BACKWARD, kept.count()));
            double all = state.plus(kept).count();
            answers.add(answer("a", tokens.count(), GPUS, Math.ceil(all / gpu)));
        }
    }

    private void devices(List<AccountingAnswer> answers) {
        Bytes tpu = Accelerator.TPU_V5P.memory();
        answers.add(
                answer("b", 0, LARGEST_BATCH, memory(batches.get(0)).limit(tpu).count()));
        for (Tokens tokens : batches) {
            FsdpMemory memory = memory(tokens);
            long n = memory.devicesToFit(tpu);
            answers.add(answer("b", tokens.count(), DEVICES, n));
            answers.add(answer("b", tokens.count(), MEMORY, memory.perDevice(n).count()));
            answers.add(
                    answer("b", tokens.count(), WHOLE_ON_EACH, memory.whole().count()));
            long all = new FsdpMemory(MODEL, STATE, tokens, 1).devicesToFit(tpu);
            answers.add(answer("b", tokens.count(), DEVICES_ALL_SPLIT, all));
        }
    }

    private static void batch(List<AccountingAnswer> answers) {
        ComputeBound mesh = mesh();
        answers.add(answer("c", mesh, INTENSITY, mesh.intensity()));
        answers.add(answer("c", mesh, WIDEST_TENSOR, mesh.widestTensor()));
        batches(answers, "c", mesh, CONCURRENT, mesh.batchConcurrent());
        batches(answers, "c", mesh, SEQUENTIAL, mesh.batchSequential());
        batches(answers, "c", mesh, BEST_MESH_CONCURRENT, mesh.batchOfBestMeshConcurrent());
        batches(answers, "c", mesh, BEST_MESH_SEQUENTIAL, mesh.batchOfBestMeshSequential());
        answers.add(answer("c", mesh, BEST_FSDP, mesh.bestFsdp(mesh.batchOfBestMeshConcurrent())));
        Tokens batch = mesh.batchConcurrent();
        answers.add(answer("c", mesh, COMPUTING, mesh.computing(batch).ms()));
        answers.add(answer("c", mesh, GATHERING_WEIGHTS, mesh.gatheringWeights().ms()));
        answers.add(answer(
                "c", mesh, MOVING_ACTIVATIONS, mesh.movingActivations(batch).ms()));
    }

    /** @param quantities the batch, its tokens per chip and its tokens per FSDP shard */
    private static void batches(
            List<AccountingAnswer> answers,
            String part,
            ComputeBound mesh,
            List<AccountingQuantity> quantities,
            Tokens batch) {
        answers.add(answer(part, mesh, quantities.get(0), batch.count()));
        answers.add(answer(part, mesh, quantities.get(1), (double) batch.count() / mesh.chips()));
        answers.add(answer(part, mesh, quantities.get(2), (double) batch.count() / mesh.fsdp()));
    }

    /** Adds the answers to (d): other meshes of the same number of chips. */
    private static void smallerBatch(List<AccountingAnswer> answers) {
        for (int tensor = 1; tensor <= mesh().widestTensor(); tensor *= 2) {
            ComputeBound mesh = mesh((int) (mesh().chips() / tensor), tensor);
            batches(answers, "d", mesh, CONCURRENT, mesh.batchConcurrent());
            batches(answers, "d", mesh, SEQUENTIAL, mesh.batchSequential());
        }
    }

    private static AccountingAnswer answer(String part, long tokens, AccountingQuantity quantity, double value) {
        return new AccountingAnswer(part, tokens, 0, 0, quantity, value);
    }

    private static AccountingAnswer answer(String part, ComputeBound mesh, AccountingQuantity quantity, double value) {
        return new AccountingAnswer(part, 0, mesh.fsdp(), mesh.tensor(), quantity, value);
    }
}
