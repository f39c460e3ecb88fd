package cs336.distributed.training;

import cs336.basics.Checkpoint;
import cs336.basics.Optimizer;
import cs336.distributed.collectives.DeviceMesh;
import cs336.distributed.collectives.ProcessGroup;
import cs336.safetensors.Safetensors;
import cs336.safetensors.SafetensorsEntry;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The saving and loading of the shards of {@link FullyShardedDataParallel} and of its optimizer. A checkpoint consists
 * of one file with whole tensors, or of one file per rank with shards. The first replica writes it. Both forms have the
 * names of {@link Checkpoint}, and both can be loaded by any number of ranks: the rows in the files of all ranks, in
 * their order, are those of the whole tensor.
 */
final class FsdpState {
    private static final String PREFIX = "optimizer."; // as in Checkpoint
    private static final String KIND = "optimizer";
    private static final String RANKS = "ranks";
    private static final String SAVE = "save"; // equal in the files of one save only

    private final DeviceMesh mesh;
    private final ProcessGroup group; // of all ranks
    private final Map<String, FsdpParameter> parameters;
    private final Map<String, Tensor> buffers; // persistent ones, of which rank 0 saves its own

    FsdpState(DeviceMesh mesh, Map<String, FsdpParameter> parameters, Map<String, Tensor> buffers) {
        this.mesh = mesh;
        group = mesh.all();
        this.parameters = parameters;
        this.buffers = buffers;
    }

    /**
     * Gathers all parameters on rank 0, one after another, and adds its buffers; on other ranks the result is empty.
     */
    Map<String, Tensor> wholeStateDict() {
        var whole = new LinkedHashMap<String, Tensor>();
        try (var noGrad = NoGrad.open()) {
            parameters.forEach((name, parameter) -> gather(name, parameter, parameter.master(), whole));
            if (group.rank() == 0) {
                buffers.forEach((name, buffer) -> whole.put(name, copyOnCpu(buffer, buffer)));
            }
        }
        return whole;
    }

    /** Gathers an optimizer's state on rank 0, one tensor after another; on other ranks the result is empty. */
    Map<String, Tensor> wholeState(Optimizer optimizer) {
        var state = new LinkedHashMap<String, Tensor>();
        try (var noGrad = NoGrad.open()) {
            optimizer.state().forEach((key, tensor) -> gather(key, parameterOf(key), tensor, state));
        }
        return state;
    }

    /** Gathers all tensors on rank 0, and writes one file there. */
    void save(Path file, Optimizer optimizer, Map<String, String> metadata) throws IOException {
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> whole = wholeStateDict();
            Map<String, Tensor> state = wholeState(optimizer);
            FileWork.onRankZero(group, () -> Checkpoint.save(file, whole, optimizer.kind(), state, metadata));
        }
    }

    /**
     * Adds the whole tensor to a map on rank 0, on the CPU. The ranks of the first replica exchange their shards. The
     * other ranks wait for each tensor: if they waited for all at once, their collective could time out.
     */
    private void gather(String key, FsdpParameter parameter, Tensor local, Map<String, Tensor> whole) {
        if (mesh.replica() == 0) {
            gatherInReplica(key, parameter, local, whole);
        }
        if (mesh.replicas() != null) {
            group.barrier();
        }
    }

    private void gatherInReplica(String key, FsdpParameter parameter, Tensor local, Map<String, Tensor> whole) {
        try (var scope = MemoryScope.open()) {
            boolean rows = parameter.isSharded() && isShaped(parameter, local);
            Tensor all = rows ? parameter.gather(mesh.shards(), local.detach()) : local.detach();
            if (group.rank() == 0) {
                whole.put(key, scope.escape(copyOnCpu(all, local)));
            }
        }
    }

    /** Returns the tensor on the CPU, in memory that it does not share with a tensor that training changes. */
    private static Tensor copyOnCpu(Tensor tensor, Tensor changing) {
        Tensor onCpu = tensor.to(Device.cpu().toTorch(), DType.of(tensor).scalarType());
        return onCpu.is_alias_of(changing) ? onCpu.clone() : onCpu;
    }

    /** Returns whether a state tensor has the shape of the shard; a step count may have that of a small shard. */
    private static boolean isShaped(FsdpParameter parameter, Tensor local) {
        return local.is_floating_point() && Arrays.equals(Tensors.shape(parameter.master()), Tensors.shape(local));
    }

    private FsdpParameter parameterOf(String key) {
        FsdpParameter parameter = parameters.get(ShardedState.parameterOf(key));
        if (parameter == null) {
            throw new IllegalArgumentException("state has " + key + ", which belongs to no parameter");
        }
        return parameter;
    }

    /** Writes one file per rank of the first replica into a folder. */
    void saveShards(Path folder, Optimizer optimizer, Map<String, String> metadata) throws IOException {
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> shards = new LinkedHashMap<>();
            parameters.forEach(
                    (name, parameter) -> shards.put(name, parameter.master().detach()));
            shards.putAll(buffers);
            Map<String, String> texts = new LinkedHashMap<>(metadata);
            for (String reserved : List.of(RANKS, SAVE)) {
                if (texts.containsKey(reserved)) {
                    throw new IllegalArgumentException(
                            "metadata must not contain the reserved name '" + reserved + "'");
                }
            }
            texts.put(RANKS, String.valueOf(mesh.shards().size()));
            texts.put(SAVE, group.allGather(UUID.randomUUID().toString()).get(0));
            FileWork.onAllRanks(group, () -> {
                if (mesh.replica() == 0) {
                    Files.createDirectories(folder);
                    Checkpoint.save(file(folder, group.rank()), shards, optimizer.kind(), optimizer.state(), texts);
                }
            });
        }
    }

    private static Path file(Path folder, int rank) {
        return folder.resolve("rank-" + rank + ".safetensors");
    }

    /** Loads this rank's shards from a file or a folder; changes nothing on any rank if it fails on one. */
    Map<String, String> load(Path source, Optimizer optimizer) throws IOException {
        List<Safetensors> files = new ArrayList<>();
        Map<String, String> metadata = new LinkedHashMap<>();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Map<String, Tensor> values = new LinkedHashMap<>();
            Map<String, Tensor> state = new LinkedHashMap<>();
            FileWork.onAllRanks(group, () -> {
                open(source, files);
                requireIntact(files);
                metadata.putAll(files.get(0).metadata());
                requireKind(source, metadata.get(KIND), optimizer);
                read(source, files, values, state);
                try {
                    optimizer.requireLoadable(state);
                } catch (IllegalArgumentException e) {
                    throw new IllegalArgumentException(source + ": " + e.getMessage(), e);
                }
            });
            optimizer.loadState(state);
            parameters.forEach((name, parameter) -> parameter.loadShard(values.get(name)));
            buffers.forEach((name, buffer) -> buffer.copy_(values.get(name)));
        } finally {
            for (Safetensors file : files) {
                file.close();
            }
        }
        metadata.remove(KIND);
        metadata.remove(RANKS);
        metadata.remove(SAVE);
        return metadata;
    }

    private static void open(Path source, List<Safetensors> files) throws IOException {
        if (!Files.isDirectory(source)) {
            files.add(Safetensors.open(source));
            return;
        }
        files.add(Safetensors.open(file(source, 0)));
        String ranks = Objects.requireNonNullElse(files.get(0).metadata().get(RANKS), "");
        if (!ranks.matches("[1-9]\\d{0,5}")) {
            throw new IllegalArgumentException(file(source, 0) + " is not a file of a sharded checkpoint");
        }
        for (int rank = 1; rank < Integer.parseInt(ranks); rank++) {
            files.add(Safetensors.open(file(source, rank)));
            String save = files.get(rank).metadata().get(SAVE);
            if (!Objects.equals(save, files.get(0).metadata().get(SAVE))) {
                throw new IllegalArgumentException(file(source, rank) + " and " + file(source, 0)
                        + " are of different saves; the last one did not complete");
            }
        }
    }

    /** Compares the files with their checksums; the ranks share the work. */
    private void requireIntact(List<Safetensors> files) throws IOException {
        for (int i = group.rank(); i < files.size(); i += group.size()) {
            if (files.get(i).hasChecksum()) {
                files.get(i).requireIntact();
            }
        }
    }

    private static void requireKind(Path source, String found, Optimizer optimizer) {
        if (!optimizer.kind().equals(found)) {
            throw new IllegalArgumentException(source + " has the state of "
                    + (found == null ? "no optimizer" : "the optimizer " + found) + "; expected " + optimizer.kind());
        }
    }

    private void read(Path source, List<Safetensors> files, Map<String, Tensor> values, Map<String, Tensor> state)
            throws IOException {
        for (String name : files.get(0).entries().keySet()) {
            if (name.startsWith(PREFIX)) {
                String key = name.substring(PREFIX.length());
                state.put(key, rows(source, files, name, parameterOf(key)));
            } else if (parameters.containsKey(name)) {
                FsdpParameter parameter = parameters.get(name);
                boolean isComplete =
                        !parameter.isSharded() || totalRows(source, files, name, parameter) == rows(parameter);
                Tensor rows = rows(source, files, name, parameter);
                if (!isComplete || !isLike(parameter.master(), rows)) {
                    throw unexpected(source, files.get(0), name, rows, parameter.master(), parameter.shape());
                }
                values.put(name, rows);
            } else if (buffers.containsKey(name)) {
                Tensor value = files.get(0).tensor(name, Device.cpu());
                Tensor buffer = buffers.get(name);
                if (!isLike(buffer, value)) {
                    throw unexpected(source, files.get(0), name, value, buffer, Tensors.shape(buffer));
                }
                values.put(name, value);
            } else {
                throw new IllegalArgumentException(source + " has the unexpected parameter " + name);
            }
        }
        requireAll(source, "parameter", parameters.keySet(), values);
        requireAll(source, "buffer", buffers.keySet(), values);
    }

    private static boolean isLike(Tensor expected, Tensor found) {
        return Arrays.equals(Tensors.shape(found), Tensors.shape(expected)) && DType.of(found) == DType.of(expected);
    }

    private static IllegalArgumentException unexpected(
            Path source, Safetensors file, String name, Tensor found, Tensor expected, long[] shape) {
        return new IllegalArgumentException(source + " has " + name + " as " + DType.of(found) + " of shape "
                + entry(source, file, name).shape() + "; expected " + DType.of(expected) + " of "
                + Arrays.toString(shape));
    }

    private static void requireAll(Path source, String what, Set<String> names, Map<String, Tensor> values) {
        for (String name : names) {
            if (!values.containsKey(name)) {
                throw new IllegalArgumentException(source + " has no " + what + " " + name);
            }
        }
    }

    private static SafetensorsEntry entry(Path source, Safetensors file, String name) {
        SafetensorsEntry entry = file.entries().get(name);
        if (entry == null) {
            throw new IllegalArgumentException("a file of " + source + " has no tensor " + name);
        }
        return entry;
    }

    private static long rows(FsdpParameter parameter) {
        return parameter.shape()[0];
    }

    /**
     * Returns the rows of a tensor in all files; −1 if it has none: if it does not have the dimensions of the
     * parameter, or is a step count, which may have the shape of a small parameter.
     */
    private static long totalRows(Path source, List<Safetensors> files, String name, FsdpParameter parameter) {
        long total = 0;
        for (Safetensors file : files) {
            SafetensorsEntry found = entry(source, file, name);
            List<Long> shape = found.shape();
            boolean isFloatingPoint = found.dtype() != null && found.dtype().isFloatingPoint();
            if (!isFloatingPoint || shape.size() != parameter.shape().length || shape.isEmpty()) {
                return -1;
            }
            total += shape.get(0);
        }
        return total;
    }

    /** Returns this rank's rows of a tensor that is divided among files, or the first file's tensor. */
    private static Tensor rows(Path source, List<Safetensors> files, String name, FsdpParameter parameter)
            throws IOException {
        long total = totalRows(source, files, name, parameter);
        if (!parameter.isSharded() || total != rows(parameter)) {
            return files.get(0).tensor(name, Device.cpu());
        }
        long from = parameter.firstRow();
        long until = from + parameter.master().size(0);
        var parts = new ArrayList<Tensor>();
        long first = 0; // row of this file
        for (Safetensors file : files) {
            long rows = entry(source, file, name).shape().get(0);
            long begin = Math.max(from, first);
            long end = Math.min(until, first + rows);
            if (begin < end || parts.isEmpty() && first + rows == total) {
                try (var scope = MemoryScope.open()) {
                    Tensor all = file.tensor(name, Device.cpu());
                    long count = Math.max(0, end - begin);
                    parts.add(scope.escape(
                            all.narrow(0, count == 0 ? 0 : begin - first, count).clone()));
                }
            }
            first += rows;
        }
        return parts.size() == 1 ? parts.get(0) : torch.cat(new TensorVector(parts.toArray(new Tensor[0])), 0);
    }
}
