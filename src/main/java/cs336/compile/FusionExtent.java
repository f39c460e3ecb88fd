package cs336.compile;

import cs336.compile.fuse.FusionPasses;
import cs336.compile.program.Program;
import cs336.torch.Device;

/** The parts of a recorded program that are fused. */
enum FusionExtent {
    /** Nothing. */
    NONE,
    /** Pointwise operations and reductions. */
    KEEP_ATTENTION,
    /** Pointwise operations, reductions and plain attention. */
    ALL;

    /** Returns a recorded program with its attention fused if this extent includes attention. */
    Program ofAttention(Program recorded, Device device) {
        return this == KEEP_ATTENTION ? recorded : FusionPasses.fuseAttention(recorded, device);
    }
}
