package cs336.compile.fuse;

import cs336.compile.fuse.FusionGroup.Level;
import cs336.compile.fuse.KernelLoads.Load;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The CUDA source of a fused kernel.
 *
 * <p>A group without reductions is one row: each thread computes VEC consecutive elements. In a group with reductions
 * over columns, THREADS threads compute a row and hold their elements of each loaded tensor in registers, so that every
 * tensor is read once. In some {@linkplain KernelTile#reload tiles} the last pass reads a row again. Expressions that
 * several passes over the row need are recomputed in each pass. For sums over rows, each block stores the sums of its
 * rows, and a second kernel adds the sums of all blocks. {@link KernelLoads} determines the addresses,
 * {@link MemberExpressions} the arithmetic.
 */
final class KernelEmitter {
    /**
     * The generated kernel.
     *
     * @param source CUDA C++
     * @param blockThreads threads per block
     * @param gridX blocks in x
     * @param gridY blocks in y
     * @param sharedBytes dynamic shared memory per block
     * @param staticBytes static shared memory per block for the sums of its rows
     * @param parts the number of partial sums per column
     * @param partials dtypes of the tensors [parts, columns] of partial sums, which the second kernel adds up
     */
    record EmittedKernel(
            String source,
            int blockThreads,
            long gridX,
            int gridY,
            int sharedBytes,
            int staticBytes,
            int parts,
            List<DType> partials) {
        boolean fits(int mostSharedBytes) {
            return sharedBytes + staticBytes <= mostSharedBytes;
        }
    }

    static final int ACCESS_BYTES = 16;
    private static final int STAGES = 2; // of prefetched rows: the current and the next one

    /** A tensor that the kernel stores for each element, in the dtype of the member. */
    private record ElementStore(Operation member, int output, Access access) {}

    private final FusionGroup group;
    private final List<ProgramValue> inputs;
    private final List<ProgramValue> outputs;
    private final List<Operation> sums; // over the rows
    private final StringBuilder text = new StringBuilder();
    private final KernelLoads loads;
    private final MemberExpressions expressions;
    private final Map<ProgramValue, Integer> depths = new HashMap<>();
    private final int vector;
    private final KernelTile tile;
    private final boolean iterates; // over rows, within a block
    private final List<Load> prefetched = new ArrayList<>();
    private final Map<Load, String> late; // loads after the reductions, which take no registers before; their names
    private final Map<Load, String> readTwice; // by a reduction and by the last pass
    private final Map<Load, String> reloaded; // those of them that the last pass loads again
    private final int chunks;

    private KernelEmitter(FusionGroup group, List<ProgramValue> outputs, KernelTile chosen) {
        this.group = group;
        this.outputs = outputs;
        inputs = group.inputs();
        sums = members(member -> group.level(member) == Level.COLUMN);
        loads = new KernelLoads(group, outputs);
        expressions = new MemberExpressions(group, loads);
        vector = loads.vector();
        boolean onlyReducesRows = group.hasReduction() && sums.isEmpty();
        Set<Load> ofReductions =
                onlyReducesRows ? loadsOf(members(member -> member.operator() instanceof ReductionOperator)) : Set.of();
        late = onlyReducesRows ? lateLoads(ofReductions) : Map.of();
        readTwice = loadsForTwoPasses(ofReductions);
        tile = chosen == null ? KernelTile.of(group, vector, !readTwice.isEmpty()) : chosen;
        iterates = !sums.isEmpty() || tile.smBlocks() > 1;
        reloaded = tile.reload() ? readTwice : Map.of();
        long accesses = group.columns() / vector;
        chunks = group.hasReduction() ? (int) IntegerMath.ceilDiv(accesses, tile.rowThreads()) : 1;
        group.members().forEach(this::findDepth);
    }

    /**
     * Returns the kernel that computes these outputs of a group.
     *
     * @param mostSharedBytes the dynamic shared memory that a block may use
     */
    static EmittedKernel of(FusionGroup group, List<ProgramValue> outputs, int mostSharedBytes) {
        var emitter = new KernelEmitter(group, outputs, null);
        EmittedKernel kernel = emitter.kernel();
        return kernel.fits(mostSharedBytes)
                ? kernel
                : new KernelEmitter(group, outputs, emitter.tile.withoutPrefetch()).kernel();
    }

    /** Returns the same kernel with each tile that is plausible for it, to be compared on a GPU. */
    static List<EmittedKernel> candidates(FusionGroup group, List<ProgramValue> outputs, int mostSharedBytes) {
        var emitter = new KernelEmitter(group, outputs, null);
        return KernelTile.candidates(group, emitter.vector, !emitter.readTwice.isEmpty()).stream()
                .map(tile -> new KernelEmitter(group, outputs, tile).kernel())
                .filter(kernel -> kernel.fits(mostSharedBytes))
                .toList();
    }

    private EmittedKernel kernel() {
        return group.isPerColumn() ? columnKernel() : rowKernel();
    }

    /** Returns the emitted kernel with its grid. */
    private EmittedKernel kernel(int blockThreads, long gridX, int gridY, int sharedBytes, int staticBytes) {
        List<DType> partials = sums.stream().map(PointwiseOperator::computeType).toList();
        return new EmittedKernel(
                text.toString(), blockThreads, gridX, gridY, sharedBytes, staticBytes, tile.parts(), partials);
    }

    // ---- kernels

    private EmittedKernel rowKernel() {
        boolean reduces = group.hasReduction();
        int rowThreads = tile.rowThreads();
        int blockRows = tile.blockRows();
        long blocks = reduces
                ? IntegerMath.ceilDiv(group.rows(), blockRows)
                : IntegerMath.ceilDiv(group.columns() / vector, rowThreads);
        String threads = "THREADS = " + rowThreads + ", CHUNKS = " + chunks + ", BLOCK_ROWS = " + blockRows;
        preamble(threads + (sums.isEmpty() ? "" : ", " + finishTile()));
        // Without a number of blocks, the compiler spills to fit more of them than the grid has.
        String minBlocks = iterates ? ", " + tile.smBlocks() : "";
        line("extern \"C\" __global__ void __launch_bounds__(THREADS * BLOCK_ROWS" + minBlocks + ")");
        line(FusedKernel.KERNEL + "(" + parameters() + ") {");
        if (reduces) {
            line("    const int barrier = BLOCK_ROWS == 1 ? 0 : 1 + threadIdx.x / THREADS;");
            line("    " + (iterates ? "" : "const ")
                    + "long long row = (long long)blockIdx.x * BLOCK_ROWS + threadIdx.x / THREADS;");
        } else {
            line("    const long long first = ((long long)blockIdx.x * THREADS + threadIdx.x) * VEC;");
            line("    if (first >= COLUMNS) return;");
        }
        sums.forEach(sum -> line("    " + CudaType.ofComputation(sum) + " acc" + id(sum) + "[CHUNKS][VEC] = {};"));
        emitPrefetch();
        if (iterates) {
            // Without sums a block has one row, but in a loop NVRTC uses fewer registers.
            String step = sums.isEmpty() ? "(long long)gridDim.x * BLOCK_ROWS" : "PARTS * BLOCK_ROWS";
            line("    for (; row < ROWS; row += " + step + ") {");
        } else if (reduces) {
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
        emitFinish();
        int blockThreads = rowThreads * blockRows;
        int sharedBytes = STAGES * prefetched.size() * chunks * blockThreads * ACCESS_BYTES;
        return kernel(blockThreads, sums.isEmpty() ? blocks : tile.parts(), 1, sharedBytes, sumBytes());
    }

    /** Returns the shared memory in which the rows of a block add up their sums. */
    private int sumBytes() {
        if (sums.isEmpty() || tile.blockRows() == 1) {
            return 0;
        }
        int bytes = sums.stream()
                .mapToInt(sum -> PointwiseOperator.computeType(sum).bytes())
                .max()
                .getAsInt();
        return Math.toIntExact(tile.blockRows() * group.columns() * bytes);
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

    /**
     * Emits the loads of what all rows share, a function that starts to copy the tensors of a row to shared memory, and
     * the call for the first row. Each thread copies what it reads itself, so that it needs no barrier.
     */
    private void emitPrefetch() {
        if (!tile.prefetch()) {
            return;
        }
        emitElementLoads(load -> !loads.dependsOnRow(load));
        loads.perRow().forEach((load, name) -> {
            line("    const auto " + name + "Of = [&](long long row) { return row < ROWS ? " + loads.rowNumber(load)
                    + " : (" + loads.held(load) + ")0; };");
            line("    auto " + name + "Next = " + name + "Of(row);");
        });
        prefetched.addAll(loads.perElement(load -> loads.isVector(load) && loads.dependsOnRow(load))
                .keySet());
        line("    extern __shared__ __align__(16) unsigned char staged[];");
        line("    constexpr int ROW_BYTES = CHUNKS * THREADS * BLOCK_ROWS * " + ACCESS_BYTES + ";");
        line("    unsigned char *const own = staged + threadIdx.x * " + ACCESS_BYTES + ";");
        line("    const auto at = [&](int stage, int tensor, int k) {");
        line("        return own + (stage * " + prefetched.size()
                + " + tensor) * ROW_BYTES + k * THREADS * BLOCK_ROWS * " + ACCESS_BYTES + ";");
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

    /** Stores the sum of the rows of a block. */
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

    /**
     * Emits a kernel whose threads each sum VEC columns over some rows, and add the sums of the same columns in shared
     * memory.
     */
    private EmittedKernel columnKernel() {
        long tiles = IntegerMath.ceilDiv(group.columns() / vector, KernelTile.COLUMN_THREADS);
        preamble(finishTile());
        line("extern \"C\" __global__ void __launch_bounds__(TILE * SLOTS)");
        line(FusedKernel.KERNEL + "(" + parameters() + ") {");
        line("    const long long first = ((long long)blockIdx.x * TILE + threadIdx.x % TILE) * VEC;");
        line("    const int slot = threadIdx.x / TILE;");
        sums.forEach(sum -> line("    " + CudaType.ofComputation(sum) + " acc" + id(sum) + "[VEC] = {};"));
        line("    if (first < COLUMNS) {");
        line("        for (long long row = (long long)blockIdx.y * SLOTS + slot; row < ROWS; row += PARTS * SLOTS) {");
        line("            const long long column = first;");
        emitAccesses(loads.expressions(), "            ");
        loads.index((load, name) -> name + "[i]");
        emitMembers(needed(sums), "            ");
        sums.forEach(sum -> line("            EACH(i) acc" + id(sum) + "[i] += " + expressions.reduced(sum) + ";"));
        line("        }");
        line("    }");
        for (Operation member : sums) {
            String type = CudaType.ofComputation(member);
            line("    __shared__ " + type + " shared" + id(member) + "[SLOTS][TILE][VEC];");
            line("    EACH(i) shared" + id(member) + "[slot][threadIdx.x % TILE][i] = acc" + id(member) + "[i];");
        }
        line("    __syncthreads();");
        line("    if (slot == 0 && first < COLUMNS) {");
        for (Operation member : sums) {
            line("        EACH(i) partial" + id(member) + "[blockIdx.y * COLUMNS + first + i] = total<SLOTS>(&shared"
                    + id(member) + "[0][threadIdx.x][i], TILE * VEC);");
        }
        line("    }");
        line("}");
        emitFinish();
        return kernel(KernelTile.MAX_BLOCK, tiles, tile.parts(), 0, 0);
    }

    private String finishTile() {
        return "TILE = " + KernelTile.COLUMN_THREADS + ", SLOTS = " + KernelTile.SLOTS + ", PARTS = " + tile.parts();
    }

    /** Emits the second kernel: each block adds up TILE columns of the partial sums. */
    private void emitFinish() {
        if (sums.isEmpty()) {
            return;
        }
        line("");
        line("extern \"C\" __global__ void __launch_bounds__(TILE * SLOTS)");
        line(FusedKernel.FINISH + "(" + parameters() + ") {");
        line("    const long long column = (long long)blockIdx.x * TILE + threadIdx.x % TILE;");
        line("    const int slot = threadIdx.x / TILE;");
        for (Operation member : sums) {
            String acc = "acc" + id(member);
            String shared = "shared" + id(member);
            line("    " + CudaType.ofComputation(member) + " " + acc + " = 0;");
            line("    for (int p = slot; p < PARTS && column < COLUMNS; p += SLOTS) " + acc + " += partial" + id(member)
                    + "[p * COLUMNS + column];");
            line("    __shared__ " + CudaType.ofComputation(member) + " " + shared + "[SLOTS][TILE];");
            line("    " + shared + "[slot][threadIdx.x % TILE] = " + acc + ";");
        }
        line("    __syncthreads();");
        line("    if (slot > 0 || column >= COLUMNS) return;");
        for (Operation member : sums) {
            line("    storeElement(out" + output(member) + " + column, total<SLOTS>(&shared" + id(member)
                    + "[0][threadIdx.x], TILE));");
        }
        line("}");
    }

    private void preamble(String tile) {
        line("#define VEC " + vector);
        line("#include \"fused.cuh\"");
        if (group.members().stream().anyMatch(member -> member.operator() == PointwiseOperator.RANDOM)) {
            line("#include \"random.cuh\"");
        }
        line("");
        line("constexpr long long ROWS = " + group.rows() + ", COLUMNS = " + group.columns() + ";");
        line("constexpr int " + tile + ";");
        line("");
    }

    // ---- loads and stores

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

    /** Returns the loads that are equal for all rows, so that a cache has them, and that no reduction needs. */
    private Map<Load, String> lateLoads(Set<Load> ofReductions) {
        return loads.perElement(load -> !loads.dependsOnRow(load) && !ofReductions.contains(load));
    }

    /** Returns the loads of whole accesses that both a reduction and the last pass over a row need. */
    private Map<Load, String> loadsForTwoPasses(Set<Load> ofReductions) {
        Set<Load> ofOutputs =
                loadsOf(stores().stream().map(ElementStore::member).toList());
        return loads.perElement(load -> loads.dependsOnRow(load)
                && loads.isVector(load)
                && ofReductions.contains(load)
                && ofOutputs.contains(load));
    }

    /** Returns the loads of these members and of the elements that they need. */
    private Set<Load> loadsOf(List<Operation> readers) {
        return Stream.concat(readers.stream(), needed(readers).stream())
                .flatMap(loads::of)
                .collect(Collectors.toSet());
    }

    /** Emits the loads of those tensors that have an element for each column. */
    private void emitElementLoads(Predicate<Load> which) {
        Map<Load, String> chosen = loads.perElement(which);
        chosen.forEach((load, name) -> line("    " + loads.declaration(load, name + "[CHUNKS]")));
        emitChunks("    ", indent -> chosen.forEach((load, name) -> line(indent + load(load, name + "[k]"))));
    }

    /** Emits the loads for the last pass before its first store, so that all of them are in flight together. */
    private void emitLastLoads() {
        Map<Load, String> hoisted = iterates ? late : Map.of();
        hoisted.forEach((load, name) -> line("    " + loads.declaration(load, name + "[CHUNKS]")));
        emitChunks("    ", indent -> {
            reloaded.forEach((load, name) -> line(indent + vectorLoad(load, name + "[k]", "loadLast")));
            hoisted.forEach((load, name) -> line(indent + load(load, name + "[k]")));
        });
    }

    /** Emits a loop over the accesses of a thread to its row. */
    private void emitChunks(String indent, Consumer<String> body) {
        int start = text.length();
        if (!group.hasReduction()) {
            line(indent + "{");
            line(indent + "    constexpr int k = 0;");
            line(indent + "    const long long column = first;");
        } else {
            line("#pragma unroll");
            line(indent + "for (int k = 0; k < CHUNKS; k++) {");
            line(indent + "    const int column = (k * THREADS + threadIdx.x % THREADS) * VEC;");
            if (group.columns() != (long) chunks * tile.rowThreads() * vector) {
                line(indent + "    if (column >= COLUMNS) break;");
            }
        }
        int empty = text.length();
        body.accept(indent + "    ");
        if (text.length() == empty) {
            text.setLength(start);
        } else {
            line(indent + "}");
        }
    }

    /** Emits the declaration and the load of one access to each tensor. */
    private void emitAccesses(Map<Load, String> names, String indent) {
        names.forEach((load, name) -> {
            line(indent + loads.declaration(load, name));
            line(indent + load(load, name));
        });
    }

    private String load(Load load, String name) {
        if (prefetched.contains(load)) {
            return name + " = " + loads.held(load) + "::fromShared(at(stage, " + prefetched.indexOf(load) + ", k));";
        }
        if (loads.isVector(load)) {
            return vectorLoad(load, name, reloaded.containsKey(load) ? "loadKept" : "load");
        }
        return "EACH(i) " + name + "[i] = loadElement(" + loads.address(load, "(column + i)") + ");";
    }

    private String vectorLoad(Load load, String name, String function) {
        return name + " = " + loads.held(load) + "::" + function + "(" + loads.address(load, "column") + ");";
    }

    private void emitOutputs() {
        List<ElementStore> stores = stores();
        emitLastLoads();
        emitChunks("    ", indent -> {
            emitAccesses(iterates ? Map.of() : late, indent);
            Set<Operation> elements = stores.stream().map(ElementStore::member).collect(Collectors.toSet());
            elements.addAll(
                    needed(Stream.concat(elements.stream(), sums.stream()).toList()));
            emitMembers(members(elements::contains), indent);
            for (ElementStore store : stores) {
                DType dtype = store.member.output().dtype();
                long start = store.access.offset();
                String out = "out" + store.output + " + " + (start == 0 ? "" : start + " + ");
                String value = "v" + id(store.member);
                if (loads.isVector(dtype, store.access, start)) {
                    String to = out + loads.address(store.access, "column");
                    line(indent + "Elements<" + CudaType.of(dtype) + ", VEC>::of(" + value + ").store(" + to + ");");
                } else {
                    String to = out + loads.address(store.access, "(column + i)");
                    line(indent + "EACH(i) storeElement(" + to + ", " + value + "[i]);");
                }
            }
            sums.forEach(sum -> line(indent + "EACH(i) acc" + id(sum) + "[k][i] += " + expressions.reduced(sum) + ";"));
        });
        for (Operation member : stored(Level.ROW)) {
            line("    if (threadIdx.x % THREADS == 0) storeElement(out" + output(member) + " + row, r" + id(member)
                    + ");");
        }
    }

    /** Returns the members of a level that the kernel stores. */
    private List<Operation> stored(Level level) {
        return members(member -> group.level(member) == level && outputs.contains(member.output()));
    }

    /** Returns the stores of elements, those of operands of concatenations last. */
    private List<ElementStore> stores() {
        List<ElementStore> stores = new ArrayList<>();
        for (Operation member : stored(Level.ELEMENT)) {
            stores.add(new ElementStore(
                    member, output(member), Access.ofOutput(member).joined()));
        }
        for (Operation concatenation : group.concatenations()) {
            for (View operand : concatenation.reads()) {
                Access access = Access.ofOperand(concatenation, operand.value());
                stores.add(new ElementStore(group.member(operand.value()), output(concatenation), access));
            }
        }
        return stores;
    }

    // ---- arithmetic

    /** Determines the number of sequential reductions after which a member's value exists. */
    private void findDepth(Operation member) {
        int depth = member.reads().stream()
                .mapToInt(view -> depths.getOrDefault(view.value(), 0))
                .max()
                .orElse(0);
        depths.put(member.output(), member.operator() instanceof ReductionOperator ? depth + 1 : depth);
    }

    private List<Operation> members(Predicate<Operation> which) {
        return group.members().stream().filter(which).toList();
    }

    private int output(Operation member) {
        return outputs.indexOf(member.output());
    }

    private void emitReductions(int depth) {
        List<Operation> reductions = members(member -> member.operator() instanceof ReductionOperator
                && group.level(member) == Level.ROW
                && depths.get(member.output()) == depth);
        if (reductions.isEmpty()) {
            return;
        }
        for (Operation member : reductions) {
            line("    " + CudaType.ofComputation(member) + " acc" + id(member) + " = " + reducer(member)
                    + "::identity((" + CudaType.ofComputation(member) + ")0);");
        }
        emitChunks("    ", indent -> {
            emitMembers(needed(reductions), indent);
            for (Operation member : reductions) {
                String acc = "acc" + id(member);
                line(indent + "EACH(i) " + acc + " = " + reducer(member) + "::combine(" + acc + ", "
                        + expressions.reduced(member) + ");");
            }
        });
        for (Operation member : reductions) {
            String type = CudaType.ofComputation(member);
            line("    __shared__ " + type + " shared" + id(member) + "[BLOCK_ROWS][THREADS / WARP];");
            String arguments = "acc" + id(member) + ", shared" + id(member) + "[threadIdx.x / THREADS], barrier";
            String total = "reduceRow<" + reducer(member) + ", THREADS>(" + arguments + ")";
            line("    const " + type + " r" + id(member) + " = " + expressions.rounded(member, total) + ";");
        }
    }

    private static String reducer(Operation member) {
        return ((ReductionOperator) member.operator()).kind() == ReductionOperator.ReductionKind.SUM ? "Sum" : "Max";
    }

    private void emitRowMembers(int depth) {
        for (Operation member : group.members()) {
            if (group.isPointwisePerRow(member) && depths.get(member.output()) == depth) {
                line("    const " + CudaType.ofResult(member) + " r" + id(member) + " = " + expressions.of(member)
                        + ";");
            }
        }
    }

    /** Emits members that compute one number per element, each as an array of VEC numbers. */
    private void emitMembers(List<Operation> members, String indent) {
        for (Operation member : members) {
            String name = "v" + id(member);
            line(indent + CudaType.ofResult(member) + " " + name + "[VEC];");
            if (member.operator() == PointwiseOperator.COMPLEX_MUL) {
                String a = expressions.operand(member, member.arguments().get(0));
                String b = expressions.operand(member, member.arguments().get(1));
                line("#pragma unroll");
                line(indent + "for (int i = 0; i < VEC; i += 2) {");
                line(indent + "    " + name + "[i] = " + a + " * " + b + " - " + next(a) + " * " + next(b) + ";");
                line(indent + "    " + name + "[i + 1] = " + a + " * " + next(b) + " + " + next(a) + " * " + b + ";");
                line(indent + "}");
            } else if (drawsBlocks(member)) {
                String arguments = member.arguments().stream()
                        .map(argument -> expressions.operand(member, argument))
                        .collect(Collectors.joining(", "));
                line("#pragma unroll");
                line(indent + "for (int i = 0; i < VEC; i += 4) philoxBlock(" + arguments + ", " + name + " + i);");
            } else {
                line(indent + "EACH(i) " + name + "[i] = " + expressions.of(member) + ";");
            }
        }
    }

    /**
     * Returns whether a member draws four random numbers at a time. VEC divides the columns, so the index of the first
     * one is a multiple of four.
     */
    private boolean drawsBlocks(Operation member) {
        return member.operator() == PointwiseOperator.RANDOM
                && vector % 4 == 0
                && group.level(member.view(2).value()) == Level.ELEMENT;
    }

    private static String next(String operand) {
        return operand.replace("[i]", "[i + 1]");
    }

    /** Returns the members of element level that these members read, directly or not, in order. */
    private List<Operation> needed(List<Operation> readers) {
        Set<ProgramValue> read = new HashSet<>();
        readers.forEach(reader -> reader.reads().forEach(view -> read.add(view.value())));
        for (int i = group.members().size() - 1; i >= 0; i--) { // readers follow what they read
            Operation member = group.members().get(i);
            if (group.level(member) == Level.ELEMENT && read.contains(member.output())) {
                member.reads().forEach(view -> read.add(view.value()));
            }
        }
        return members(member -> group.level(member) == Level.ELEMENT && read.contains(member.output()));
    }

    // ---- names and parameters

    /** Returns a number for names in the source, which is the same in equal groups. */
    private int id(Operation member) {
        return group.indexOf(member.output());
    }

    /** Returns the parameters of both kernels: inputs, partial sums and outputs. */
    private String parameters() {
        List<String> parameters = new ArrayList<>();
        for (int i = 0; i < inputs.size(); i++) {
            parameters.add("const " + CudaType.of(inputs.get(i).dtype()) + " *__restrict__ in" + i);
        }
        sums.forEach(sum -> parameters.add(CudaType.ofComputation(sum) + " *__restrict__ partial" + id(sum)));
        for (int i = 0; i < outputs.size(); i++) {
            parameters.add(CudaType.of(outputs.get(i).dtype()) + " *__restrict__ out" + i);
        }
        return String.join(", ", parameters);
    }

    private void line(String line) {
        text.append(line).append('\n');
    }
}
