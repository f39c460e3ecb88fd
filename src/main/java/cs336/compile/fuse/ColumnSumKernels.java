package cs336.compile.fuse;

import cs336.compile.program.Operation;
import cs336.units.IntegerMath;

/**
 * The generated kernels that sum over rows only: one whose blocks store the sums of their rows, and one that adds the
 * sums of all blocks. {@link RowWiseKernel} also uses the second one.
 */
final class ColumnSumKernels {
    private ColumnSumKernels() {}

    /**
     * Appends a kernel whose threads each sum VEC columns over some rows, and add the sums of the same columns in
     * shared memory. Returns its number of blocks in x; there are {@link KernelTile#parts} in y.
     */
    static long emit(KernelCode code, KernelTile tile) {
        long columns = code.group().columns();
        code.preamble(constants(tile));
        code.line("extern \"C\" __global__ void __launch_bounds__(TILE * SLOTS)");
        code.line(FusedKernel.KERNEL + "(" + code.parameters() + ") {");
        code.line("    const long long first = ((long long)blockIdx.x * TILE + threadIdx.x % TILE) * VEC;");
        code.line("    const int slot = threadIdx.x / TILE;");
        for (Operation sum : code.columnSums()) {
            code.line("    " + CudaType.ofComputation(sum) + " acc" + code.id(sum) + "[VEC] = {};");
        }
        code.line("    if (first < COLUMNS) {");
        code.line(
                "        for (long long row = (long long)blockIdx.y * SLOTS + slot; row < ROWS; row += PARTS * SLOTS) {");
        code.line("            const long long column = first;");
        code.accesses(code.loads().expressions(), "            ");
        code.loads().index((load, name) -> name + "[i]");
        code.elements(code.needed(code.columnSums()), "            ");
        for (Operation sum : code.columnSums()) {
            code.line("            EACH(i) acc" + code.id(sum) + "[i] += "
                    + code.expressions().reduced(sum) + ";");
        }
        code.line("        }");
        code.line("    }");
        for (Operation sum : code.columnSums()) {
            int id = code.id(sum);
            code.line("    __shared__ " + CudaType.ofComputation(sum) + " shared" + id + "[SLOTS][TILE][VEC];");
            code.line("    EACH(i) shared" + id + "[slot][threadIdx.x % TILE][i] = acc" + id + "[i];");
        }
        code.line("    __syncthreads();");
        code.line("    if (slot == 0 && first < COLUMNS) {");
        for (Operation sum : code.columnSums()) {
            int id = code.id(sum);
            code.line("        EACH(i) partial" + id + "[blockIdx.y * COLUMNS + first + i] = total<SLOTS>(&shared" + id
                    + "[0][threadIdx.x][i], TILE * VEC);");
        }
        code.line("    }");
        code.line("}");
        emitFinish(code);
        return IntegerMath.ceilDiv(columns / code.loads().vector(), KernelTile.COLUMN_THREADS);
    }

    /** Returns the definitions of the constants that {@link #emitFinish} needs. */
    static String constants(KernelTile tile) {
        return "TILE = " + KernelTile.COLUMN_THREADS + ", SLOTS = " + KernelTile.SLOTS + ", PARTS = " + tile.parts();
    }

    /** Appends the second kernel: each block adds up TILE columns of the partial sums. */
    static void emitFinish(KernelCode code) {
        code.line("");
        code.line("extern \"C\" __global__ void __launch_bounds__(TILE * SLOTS)");
        code.line(FusedKernel.FINISH + "(" + code.parameters() + ") {");
        code.line("    const long long column = (long long)blockIdx.x * TILE + threadIdx.x % TILE;");
        code.line("    const int slot = threadIdx.x / TILE;");
        for (Operation sum : code.columnSums()) {
            int id = code.id(sum);
            String type = CudaType.ofComputation(sum);
            code.line("    " + type + " acc" + id + " = 0;");
            code.line("    for (int p = slot; p < PARTS && column < COLUMNS; p += SLOTS) acc" + id + " += partial" + id
                    + "[p * COLUMNS + column];");
            code.line("    __shared__ " + type + " shared" + id + "[SLOTS][TILE];");
            code.line("    shared" + id + "[slot][threadIdx.x % TILE] = acc" + id + ";");
        }
        code.line("    __syncthreads();");
        code.line("    if (slot > 0 || column >= COLUMNS) return;");
        for (Operation sum : code.columnSums()) {
            code.line("    storeElement(" + code.output(sum) + " + column, total<SLOTS>(&shared" + code.id(sum)
                    + "[0][threadIdx.x], TILE));");
        }
        code.line("}");
    }
}
