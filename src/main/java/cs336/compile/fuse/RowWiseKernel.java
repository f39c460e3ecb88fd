package cs336.compile.fuse;

import cs336.compile.fuse.FusionGroup.Level;
import cs336.compile.fuse.KernelCode.ElementStore;
import cs336.compile.fuse.KernelLoads.Load;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A generated kernel that computes elements, and reductions over columns.
 *
 * <p>A group without reductions is one row: each thread computes VEC consecutive elements. In a group with reductions
 * over columns, THREADS threads compute a row and hold their elements of each loaded tensor in registers, so that every
 * tensor is read once. In some {@linkplain KernelTile#reload tiles} the last pass reads a row again. Expressions that
 * several passes over the row need are recomputed in each pass. For sums over rows, each block stores the sums of its
 * rows, and a second kernel adds the sums of all blocks.
 */
final class RowWiseKernel {
    private static final int STAGES = 2; // of prefetched rows: the current and the next one

    private final KernelCode code;
    private final FusionGroup group;
    private final KernelLoads loads;
    private final KernelTile tile;
    private final List<Operation> sums; // over the rows
    private final boolean iterates; // over rows, within a block
    private final int chunks;
    private final Map<Load, String> late; // loads after the reductions, which take no registers before
    private final Map<Load, String> reloaded; // loads by a reduction, and again by the last pass
    private final List<Load> prefetched;
    private final Map<ProgramValue, Integer> depths = new HashMap<>();

    RowWiseKernel(KernelCode code, KernelTile tile) {
        this.code = code;
        this.tile = tile;
        group = code.group();
        loads = code.loads();
        sums = code.columnSums();
        iterates = !sums.isEmpty() || tile.smBlocks() > 1;
        chunks = group.hasReduction() ? (int) IntegerMath.ceilDiv(accesses(), tile.rowThreads()) : 1;
        RowLoads rowLoads = RowLoads.of(code);
        late = rowLoads.late();
        reloaded = tile.reload() ? rowLoads.twice() : Map.of();
        prefetched = tile.prefetch()
                ? List.copyOf(loads.perElement(load -> loads.isVector(load) && loads.dependsOnRow(load))
                        .keySet())
                : List.of();
        group.members().forEach(this::findDepth);
    }

    /** Returns the number of accesses to a row of a tensor. */
    private long accesses() {
        return group.columns() / loads.vector();
    }

    /** Determines the number of sequential reductions after which a member's value exists. */
    private void findDepth(Operation member) {
        int depth = member.reads().stream()
                .mapToInt(view -> depths.getOrDefault(view.value(), 0))
                .max()
                .orElse(0);
        depths.put(member.output(), member.operator() instanceof ReductionOperator ? depth + 1 : depth);
    }

    // ---- launch

    /** Returns the number of blocks. */
    long blocks() {
        if (!sums.isEmpty()) {
            return tile.parts();
        }
        return group.hasReduction()
                ? IntegerMath.ceilDiv(group.rows(), tile.blockRows())
                : IntegerMath.ceilDiv(accesses(), tile.rowThreads());
    }

    int blockThreads() {
        return tile.rowThreads() * tile.blockRows();
    }

    /** Returns the dynamic shared memory of a block in bytes, for prefetched rows. */
    int sharedBytes() {
        return STAGES * prefetched.size() * chunks * blockThreads() * KernelEmitter.ACCESS_BYTES;
    }

    /** Returns the static shared memory in bytes in which the rows of a block add up their sums. */
    int sumBytes() {
        if (sums.isEmpty() || tile.blockRows() == 1) {
            return 0;
        }
        int bytes = sums.stream()
                .mapToInt(sum -> PointwiseOperator.computeType(sum).bytes())
                .max()
                .getAsInt();
        return Math.toIntExact(tile.blockRows() * group.columns() * bytes);
    }

    // ---- source

    /** Appends the kernel, and the second one if there are sums over rows. */
    void emit() {
        String threads =
                "THREADS = " + tile.rowThreads() + ", CHUNKS = " + chunks + ", BLOCK_ROWS = " + tile.blockRows();
        code.preamble(threads + (sums.isEmpty() ? "" : ", " + ColumnSumKernels.constants(tile)));
        // Without a number of blocks, the compiler spills to fit more of them than the grid has.
        String minBlocks = iterates ? ", " + tile.smBlocks() : "";
        line("extern \"C\" __global__ void __launch_bounds__(THREADS * BLOCK_ROWS" + minBlocks + ")");
        line(FusedKernel.KERNEL + "(" + code.parameters() + ") {");
        if (group.hasReduction()) {
            line("    const int barrier = BLOCK_ROWS == 1 ? 0 : 1 + threadIdx.x / THREADS;");
            line("    " + (iterates ? "" : "const ")
                    + "long long row = (long long)blockIdx.x * BLOCK_ROWS + threadIdx.x / THREADS;");
        } else {
            line("    const long long first = ((long long)blockIdx.x * THREADS + threadIdx.x) * VEC;");
            line("    if (first >= COLUMNS) return;");
        }
        sums.forEach(sum -> line("    " + CudaType.ofComputation(sum) + " acc" + id(sum) + "[CHUNKS][VEC] = {};"));
        if (tile.prefetch()) {
            emitPrefetch();
        }
        if (iterates) {
            // Without sums a block has one row, but in a loop NVRTC uses fewer registers.
            String step = sums.isEmpty() ? "(long long)gridDim.x * BLOCK_ROWS" : "PARTS * BLOCK_ROWS";
            line("    for (; row < ROWS; row += " + step + ") {");
        } else if (group.hasReduction()) {
            line("    if (row >= ROWS) return; // all threads of a row");
        }
        emitRow();
        if (iterates) {
            line("    syncRow<THREADS>(barrier); // the next row uses the same shared memory");
            line("    }");
        }
        if (sumBytes() > 0) {
            line("    __shared__ __align__(16) unsigned char sums[" + sumBytes() + "];");
        }
        sums.forEach(this::emitPartialSums);
        line("}");
        if (!sums.isEmpty()) {
            ColumnSumKernels.emitFinish(code);
        }
    }

    private void emitRow() {
        Map<Load, String> packed = loads.perElement(
                load -> !late.containsKey(load) && loads.isVector(load) && load.dtype() != DType.FLOAT32);
        emitLoads();
        int last = depths.values().stream().mapToInt(Integer::intValue).max().orElse(0);
        for (int depth = 0; depth <= last; depth++) {
            emitReductions(depth);
            if (depth == last) {
                packed.keySet().removeAll(reloaded.keySet());
            }
            if (depth > 0) {
                emitChunks(
                        "    ", indent -> packed.values().forEach(name -> line(indent + name + "[k].keepPacked();")));
            }
            emitRowMembers(depth);
        }
        emitOutputs();
    }

    /** Appends a loop over the accesses of a thread to its row. */
    private void emitChunks(String indent, Consumer<String> body) {
        int start = code.length();
        if (!group.hasReduction()) {
            line(indent + "{");
            line(indent + "    constexpr int k = 0;");
            line(indent + "    const long long column = first;");
        } else {
            line("#pragma unroll");
            line(indent + "for (int k = 0; k < CHUNKS; k++) {");
            line(indent + "    const int column = (k * THREADS + threadIdx.x % THREADS) * VEC;");
            if (accesses() != (long) chunks * tile.rowThreads()) {
                line(indent + "    if (column >= COLUMNS) break;");
            }
        }
        int empty = code.length();
        body.accept(indent + "    ");
        if (code.length() == empty) {
            code.truncate(start);
        } else {
            line(indent + "}");
        }
    }

    // ---- loads

    /**
     * Appends the loads of what all rows share, a function that starts to copy the tensors of a row to shared memory,
     * and the call for the first row. Each thread copies what it reads itself, so that it needs no barrier.
     */
    private void emitPrefetch() {
        emitElementLoads(load -> !loads.dependsOnRow(load));
        loads.perRow().forEach((load, name) -> {
            line("    const auto " + name + "Of = [&](long long row) { return row < ROWS ? " + loads.rowNumber(load)
                    + " : (" + loads.held(load) + ")0; };");
            line("    auto " + name + "Next = " + name + "Of(row);");
        });
        String access = " * " + KernelEmitter.ACCESS_BYTES;
        line("    extern __shared__ __align__(16) unsigned char staged[];");
        line("    constexpr int ROW_BYTES = CHUNKS * THREADS * BLOCK_ROWS" + access + ";");
        line("    unsigned char *const own = staged + threadIdx.x" + access + ";");
        line("    const auto at = [&](int stage, int tensor, int k) {");
        line("        return own + (stage * " + prefetched.size() + " + tensor) * ROW_BYTES + k * THREADS * BLOCK_ROWS"
                + access + ";");
        line("    };");
        line("    const auto prefetch = [&](long long row, int stage) {");
        line("        if (row < ROWS) {");
        emitChunks("            ", indent -> {
            for (int i = 0; i < prefetched.size(); i++) {
                Load load = prefetched.get(i);
                line(indent + loads.held(load) + "::copyAsync(at(stage, " + i + ", k), " + loads.address(load, "column")
                        + ");");
            }
        });
        line("        }");
        line("        asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
        line("    };");
        line("    int stage = 0;");
        line("    prefetch(row, stage);");
    }

    private void emitLoads() {
        if (tile.prefetch()) {
            line("    const long long next = row + PARTS * BLOCK_ROWS;");
            line("    prefetch(next, 1 - stage);");
        }
        loads.perRow().forEach((load, name) -> {
            String value = tile.prefetch() ? name + "Next" : loads.rowNumber(load);
            line("    const " + loads.held(load) + " " + name + " = " + value + ";");
            if (tile.prefetch()) {
                line("    " + name + "Next = " + name + "Of(next);");
            }
        });
        if (tile.prefetch()) {
            line("    asm volatile(\"cp.async.wait_group 1;\" ::: \"memory\");");
        }
        emitElementLoads(load -> !late.containsKey(load) && (!tile.prefetch() || loads.dependsOnRow(load)));
        if (tile.prefetch()) {
            line("    stage = 1 - stage;");
        }
        loads.index((load, name) ->
                name + (loads.isPerRow(load) ? "" : late.containsKey(load) && !iterates ? "[i]" : "[k][i]"));
    }

    /** Appends the loads of those tensors that have an element for each column. */
    private void emitElementLoads(Predicate<Load> isChosen) {
        Map<Load, String> chosen = loads.perElement(isChosen);
        chosen.forEach((load, name) -> line("    " + loads.declaration(load, name + "[CHUNKS]")));
        emitChunks("    ", indent -> chosen.forEach((load, name) -> line(indent + load(load, name + "[k]"))));
    }

    /** Appends the loads for the last pass before its first store, so that all of them are in flight together. */
    private void emitLastLoads() {
        Map<Load, String> hoisted = iterates ? late : Map.of();
        hoisted.forEach((load, name) -> line("    " + loads.declaration(load, name + "[CHUNKS]")));
        emitChunks("    ", indent -> {
            reloaded.forEach((load, name) -> line(indent + code.vectorLoad(load, name + "[k]", "loadLast")));
            hoisted.forEach((load, name) -> line(indent + code.load(load, name + "[k]")));
        });
    }

    private String load(Load load, String name) {
        if (prefetched.contains(load)) {
            return name + " = " + loads.held(load) + "::fromShared(at(stage, " + prefetched.indexOf(load) + ", k));";
        }
        return reloaded.containsKey(load) ? code.vectorLoad(load, name, "loadKept") : code.load(load, name);
    }

    // ---- reductions and results

    private void emitReductions(int depth) {
        List<Operation> reductions = code.members(member -> member.operator() instanceof ReductionOperator
                && group.level(member) == Level.ROW
                && depths.get(member.output()) == depth);
        if (reductions.isEmpty()) {
            return;
        }
        for (Operation member : reductions) {
            String type = CudaType.ofComputation(member);
            line("    " + type + " acc" + id(member) + " = " + reducer(member) + "::identity((" + type + ")0);");
        }
        emitChunks("    ", indent -> {
            code.elements(code.needed(reductions), indent);
            for (Operation member : reductions) {
                String acc = "acc" + id(member);
                line(indent + "EACH(i) " + acc + " = " + reducer(member) + "::combine(" + acc + ", "
                        + code.expressions().reduced(member) + ");");
            }
        });
        for (Operation member : reductions) {
            String type = CudaType.ofComputation(member);
            line("    __shared__ " + type + " shared" + id(member) + "[BLOCK_ROWS][THREADS / WARP];");
            String arguments = "acc" + id(member) + ", shared" + id(member) + "[threadIdx.x / THREADS], barrier";
            String total = "reduceRow<" + reducer(member) + ", THREADS>(" + arguments + ")";
            line("    const " + type + " r" + id(member) + " = "
                    + code.expressions().rounded(member, total) + ";");
        }
    }

    private static String reducer(Operation member) {
        return ((ReductionOperator) member.operator()).kind() == ReductionOperator.ReductionKind.SUM ? "Sum" : "Max";
    }

    private void emitRowMembers(int depth) {
        for (Operation member : group.members()) {
            if (group.isPointwisePerRow(member) && depths.get(member.output()) == depth) {
                line("    const " + CudaType.ofResult(member) + " r" + id(member) + " = "
                        + code.expressions().of(member) + ";");
            }
        }
    }

    private void emitOutputs() {
        List<ElementStore> stores = code.stores();
        emitLastLoads();
        emitChunks("    ", indent -> {
            code.accesses(iterates ? Map.of() : late, indent);
            Set<Operation> elements = stores.stream().map(ElementStore::member).collect(Collectors.toSet());
            elements.addAll(
                    code.needed(Stream.concat(elements.stream(), sums.stream()).toList()));
            code.elements(code.members(elements::contains), indent);
            stores.forEach(store -> emitStore(store, indent));
            sums.forEach(sum -> line(indent + "EACH(i) acc" + id(sum) + "[k][i] += "
                    + code.expressions().reduced(sum) + ";"));
        });
        for (Operation member : code.stored(Level.ROW)) {
            line("    if (threadIdx.x % THREADS == 0) storeElement(" + code.output(member) + " + row, r" + id(member)
                    + ");");
        }
    }

    private void emitStore(ElementStore store, String indent) {
        DType dtype = store.member().output().dtype();
        long start = store.access().offset();
        String out = store.output() + " + " + (start == 0 ? "" : start + " + ");
        String value = "v" + id(store.member());
        if (loads.isVector(dtype, store.access(), start)) {
            String to = out + loads.address(store.access(), "column");
            line(indent + "Elements<" + CudaType.of(dtype) + ", VEC>::of(" + value + ").store(" + to + ");");
        } else {
            String to = out + loads.address(store.access(), "(column + i)");
            line(indent + "EACH(i) storeElement(" + to + ", " + value + "[i]);");
        }
    }

    /** Appends the store of the sum of the rows of a block. */
    private void emitPartialSums(Operation sum) {
        String acc = "acc" + id(sum) + "[k][i]";
        String partial = "partial" + id(sum) + "[(long long)blockIdx.x * COLUMNS + ";
        if (tile.blockRows() == 1) {
            emitChunks("    ", indent -> line(indent + "EACH(i) " + partial + "column + i] = " + acc + ";"));
            return;
        }
        String shared = "shared" + id(sum);
        String type = CudaType.ofComputation(sum);
        line("    __syncthreads();");
        line("    " + type + " (*" + shared + ")[COLUMNS] = (" + type + " (*)[COLUMNS])sums;");
        emitChunks(
                "    ",
                indent -> line(indent + "EACH(i) " + shared + "[threadIdx.x / THREADS][column + i] = " + acc + ";"));
        line("    __syncthreads();");
        line("    for (int column = threadIdx.x; column < COLUMNS; column += THREADS * BLOCK_ROWS)");
        line("        " + partial + "column] = total<BLOCK_ROWS>(&" + shared + "[0][column], COLUMNS);");
    }

    private void line(String line) {
        code.line(line);
    }

    private int id(Operation member) {
        return code.id(member);
    }
}
